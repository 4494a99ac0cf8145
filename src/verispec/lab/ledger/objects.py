"""Evidence by content: a JSON value is a file named by the SHA-256 of its canonical form, and is never changed."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from verispec.errors import VerispecError


class LedgerError(VerispecError):
    """Evidence that is missing, altered, or cannot be written."""


class DiskFullError(LedgerError):
    """There is no room for more evidence; what is there stays whole."""


class ObjectStore:
    """Files under ``folder``, two letters of the digest a folder. Written beside and renamed: a kill at any point
    leaves either the whole object or a temporary file that nobody reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, value: Any) -> str:
        """Keeps a JSON value and gives its digest. DiskFullError when there is no room."""
        return self.put_bytes(canonical_json(value), ".json")

    def put_bytes(self, content: bytes, ending: str) -> str:
        """Keeps bytes, such as a server's log, under a name that ends in ``ending``."""
        digest = sha256(content).hexdigest()
        path = self.path(digest, ending)
        if not path.exists():
            with room_needed(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
        return digest

    def get(self, digest: str) -> Any:
        """The JSON value. LedgerError when it is missing or is not what its name says."""
        return json.loads(self.get_bytes(digest, ".json"))

    def get_bytes(self, digest: str, ending: str) -> bytes:
        path = self.path(digest, ending)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise LedgerError(f"ledger: evidence {digest[:12]} is missing: {path}") from error
        found = sha256(content).hexdigest()
        if found != digest:
            raise LedgerError(f"ledger: evidence {digest[:12]} was altered: its content is {found[:12]}")
        return content

    def path(self, digest: str, ending: str = ".json") -> Path:
        return self._folder / digest[:2] / f"{digest}{ending}"

    def digests(self) -> Iterator[str]:
        """Every JSON object that is there."""
        if self._folder.exists():
            yield from (path.stem for path in sorted(self._folder.glob("??/*.json")))


def canonical_json(value: Any) -> bytes:
    """One form for one value: sorted keys, no spaces, UTF-8, no endless or missing numbers."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def write_whole(path: Path, content: bytes) -> None:
    """``path`` holds all of ``content``, durably, or is not there."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """A rename outlasts a power cut only when its folder was written too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def room_needed(path: Path) -> Iterator[None]:
    """Turns what the system says of a full disk into DiskFullError."""
    import errno

    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"ledger: no room left on the disk of {path.parent}") from error
        raise
