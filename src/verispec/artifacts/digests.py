"""SHA-256 of model files, remembered while a file is unchanged, so that opening a model does not read all
of it.

A remembered digest belongs to a file's identity: device, inode, size, and the times of its last change to
content and to attributes. Writing to the file changes at least one of them (setting the modification time
back still moves the change time), so a stale digest is not used. A file changed within the last moments
is hashed but not remembered, because a second write in the same clock tick would leave no trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from verispec.artifacts.cache_folder import cache_folder
from verispec.artifacts.files import write_atomically

CHUNK = 1 << 20
SETTLING_SECONDS = 2.0

Progress = Callable[[int], None]


def file_sha256(path: Path, progress: Progress | None = None, *, remembered: bool = True) -> str:
    """SHA-256 of ``path`` in lowercase hexadecimal.

    ``remembered=False`` reads every byte again. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return descriptor_sha256(descriptor, progress, remembered=remembered)
    finally:
        os.close(descriptor)


def folder_sha256(folder: Path, *, remembered: bool = True) -> str:
    """SHA-256 over the names and digests of the files in ``folder``, hidden ones and folders left out."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    lines = [f"{file_sha256(path, remembered=remembered)}  {path.name}\n" for path in files]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def descriptor_sha256(descriptor: int, progress: Progress | None = None, *, remembered: bool = True) -> str:
    """SHA-256 of an open file; ``progress`` is told the bytes of each chunk.

    Its file position is not used.
    """
    identity = identify(descriptor)
    note = cache_folder() / "digests" / hashlib.sha256(identity.encode()).hexdigest()[:32]
    if remembered and (digest := read_note(note, identity)) is not None:
        return digest
    digest = hash_all(descriptor, progress)
    settled = time.time() - os.fstat(descriptor).st_ctime > SETTLING_SECONDS
    if settled and identify(descriptor) == identity:
        write_note(note, identity, digest)
    return digest


def identify(descriptor: int) -> str:
    """What a file's content cannot change without changing."""
    status = os.fstat(descriptor)
    return " ".join(
        str(part)
        for part in (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    )


def hash_all(descriptor: int, progress: Progress | None) -> str:
    # pread, not the mapping: hashing must not make the whole file resident in this process.
    digest = hashlib.sha256()
    offset = 0
    while chunk := os.pread(descriptor, CHUNK, offset):
        digest.update(chunk)
        offset += len(chunk)
        if progress is not None:
            progress(len(chunk))
    return digest.hexdigest()


def read_note(note: Path, identity: str) -> str | None:
    try:
        content = json.loads(note.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("identity") != identity:
        return None
    digest = content.get("sha256")
    return digest if isinstance(digest, str) and len(digest) == 64 else None


def write_note(note: Path, identity: str, digest: str) -> None:
    """Remembers a digest. A cache folder that cannot be written costs time, nothing else."""
    try:
        write_atomically(note, json.dumps({"identity": identity, "sha256": digest}).encode())
    except OSError:
        return
