"""The content-addressed store of models in the user's cache folder.

``blobs/sha256/<digest>`` holds a file under the SHA-256 of its content, read-only; ``names/<name>.json``
says which content a name means. A blob appears in one step, complete and checked, or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from verispec.artifacts.cache_folder import cache_folder
from verispec.artifacts.digests import Progress, file_sha256
from verispec.artifacts.files import atomic_writer, write_atomically
from verispec.errors import ArtifactError, FetchError

SHORTEST_PREFIX = 6
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class NamedModel:
    """What a name stands for: a content digest, its size in bytes, and where it came from."""

    name: str
    sha256: str
    size: int
    origin: str
    licence: str = ""


class Store:
    """Blobs by digest, names for them. Any number of processes may read and write one store."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()
        self.blobs = self.folder / "blobs" / "sha256"
        self.names = self.folder / "names"

    def blob_path(self, digest: str) -> Path:
        """Where the content of ``digest`` is, or would be."""
        return self.blobs / digest

    def has(self, digest: str, size: int) -> bool:
        """Whether a blob of that digest and size is there.

        Looks at the size only; ``verify`` reads the content.
        """
        path = self.blob_path(digest)
        return path.is_file() and path.stat().st_size == size

    def verify(self, digest: str, progress: Progress | None = None, *, remembered: bool = True) -> Path:
        """The path of a blob whose content has been checked. Raises ArtifactError when it is missing or
        altered.

        A check is remembered while the file is unchanged, so only the first one reads it all.
        """
        path = self.blob_path(digest)
        try:
            found = file_sha256(path, progress, remembered=remembered)
        except OSError as error:
            raise ArtifactError(path, "file", "a model in the store", error.strerror or str(error)) from error
        if found != digest:
            raise ArtifactError(path, "content", f"SHA-256 {digest}", found)
        return path

    @contextlib.contextmanager
    def receive(self, digest: str) -> Iterator[Callable[[bytes], None]]:
        """Gives a ``write(bytes)``; when the block ends, what was written becomes the blob ``digest``.

        Raises ArtifactError, and stores nothing, when its SHA-256 is another.
        """
        path = self.blob_path(digest)
        running = hashlib.sha256()
        with atomic_writer(path, mode=0o444) as file:

            def write(chunk: bytes) -> None:
                running.update(chunk)
                file.write(chunk)

            yield write
            if running.hexdigest() != digest:
                raise ArtifactError(path, "content", f"SHA-256 {digest}", running.hexdigest())

    def add(self, source: Path) -> str:
        """Copies a file into the store, whatever its content, and returns its digest."""
        digest = file_sha256(source)
        with self.receive(digest) as write, source.open("rb") as file:
            while chunk := file.read(1 << 20):
                write(chunk)
        return digest

    def name(self, model: NamedModel) -> None:
        """Makes ``model.name`` stand for its content."""
        if not NAME.fullmatch(model.name):
            raise ValueError(f"a model name is lower-case letters, digits, '.', '_', '-'; not {model.name!r}")
        content = json.dumps(asdict(model), indent=2, sort_keys=True) + "\n"
        write_atomically(self.names / f"{model.name}.json", content.encode())

    def named(self, name: str) -> NamedModel | None:
        """What ``name`` stands for, or None when it names nothing here.

        Raises ArtifactError for a broken note.
        """
        if not NAME.fullmatch(name):
            return None
        path = self.names / f"{name}.json"
        try:
            return NamedModel(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise ArtifactError(path, "model name", "a JSON object of known fields", str(error)) from error

    def has_named(self, name: str) -> bool:
        """Whether ``name`` stands for content that is here."""
        model = self.named(name)
        return model is not None and self.has(model.sha256, model.size)

    def all_named(self) -> list[NamedModel]:
        """Every named model, by name."""
        found = [self.named(path.stem) for path in sorted(self.names.glob("*.json"))]
        return [model for model in found if model is not None]

    def by_prefix(self, prefix: str) -> str:
        """The digest of the one blob that begins with ``prefix``. Raises FetchError for none or several."""
        prefix = prefix.lower()
        if len(prefix) < SHORTEST_PREFIX or not re.fullmatch("[0-9a-f]{1,64}", prefix):
            raise FetchError(f"sha256:{prefix}: give {SHORTEST_PREFIX} to 64 hexadecimal digits")
        found = sorted(path.name for path in self.blobs.glob(f"{prefix}*") if len(path.name) == 64)
        if not found:
            raise FetchError(f"sha256:{prefix}: nothing in the store begins so (`verispec models` lists it)")
        if len(found) > 1:
            raise FetchError(f"sha256:{prefix}: {len(found)} files in the store begin so; give more digits")
        return found[0]
