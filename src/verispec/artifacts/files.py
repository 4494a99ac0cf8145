"""Writing files so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_writer(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A binary file that becomes ``path``, synced to disk, when the block ends well; else nothing is left."""
    with atomic_path(path, mode) as partial, partial.open("wb") as file:
        yield file


@contextlib.contextmanager
def atomic_path(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """The same for a writer that opens its file itself: an empty file beside ``path``, to be filled by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    partial = Path(name)
    try:
        os.close(descriptor)
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        raise


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replaces ``path`` by ``content`` in one step, creating its folder."""
    with atomic_writer(path, mode) as file:
        file.write(content)
