"""``verispec pull``: fetch a model into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from verispec.cli.output import JsonOption, print_json, size_text

if TYPE_CHECKING:
    from verispec.artifacts.store import NamedModel


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A name from `verispec models`, or hf:OWNER/REPO/FILE.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Fetch a model, check its SHA-256 and store it.

    An interrupted pull goes on where it stopped when the same command runs again.
    """
    from verispec.artifacts.resolve import HUB

    if model.startswith(HUB):
        pull_from_hub(model, as_json)
    else:
        pull_from_catalog(model, as_json)


def fetch(name: str) -> NamedModel:
    """Fetches a model of the catalogue with a progress bar, unless it is already here."""
    from verispec.artifacts.pull import catalog_model, pull
    from verispec.artifacts.store import Store
    from verispec.cli.progress import ProgressBar

    with ProgressBar(name) as bar:
        return pull(catalog_model(name), Store(), bar)


def pull_from_catalog(name: str, as_json: bool) -> None:
    from verispec.artifacts.catalog import CATALOG
    from verispec.artifacts.store import Store

    entry = fetch(name)
    store, wanted = Store(), CATALOG[name]
    path = store.blob_path(entry.sha256)
    if as_json:
        print_json({"name": name, "path": str(path), "sha256": entry.sha256, "size": entry.size})
        return
    typer.echo(f"{name}: {size_text(entry.size)}, SHA-256 {entry.sha256} checked")
    typer.echo(f"licence: {wanted.licence} (text in {store.folder / 'documents' / name})")
    if wanted.notice:
        typer.echo(wanted.notice)


def pull_from_hub(argument: str, as_json: bool) -> None:
    from verispec.artifacts.digests import file_sha256
    from verispec.artifacts.resolve import resolve_model

    path = resolve_model(argument).path
    size, digest = path.stat().st_size, file_sha256(path)
    if as_json:
        print_json({"name": argument, "path": str(path), "sha256": digest, "size": size})
        return
    typer.echo(f"{argument}: {size_text(size)}, SHA-256 {digest}")
