"""SHA-256 of files and folders; each file is read once as long as it stays the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

BLOCK = 1 << 20
_known: dict[tuple[int, int, int, int], str] = {}


def file_digest(path: Path) -> str:
    """SHA-256 of a file. OSError when it cannot be read."""
    status = path.stat()
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in _known:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
        _known[key] = digest.hexdigest()
    return _known[key]


def tree_digest(folder: Path, endings: Iterable[str] = ()) -> str:
    """SHA-256 over the names and digests of all files below ``folder``, or of those with one of ``endings``."""
    wanted = tuple(endings)
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if "__pycache__" in path.parts or (wanted and path.suffix not in wanted):
            continue
        digest.update(f"{path.relative_to(folder)}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()


def path_digest(path: Path) -> str:
    """Of a file or of a whole folder."""
    return tree_digest(path) if path.is_dir() else file_digest(path)
