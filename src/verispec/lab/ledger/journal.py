"""The order of the evidence: one line an entry, each with a hash over the one before, so that none can go."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from verispec.lab.ledger.objects import LedgerError, room_needed, sync_folder

START = "0" * 64
TAIL_BYTES = 8192
"""Holds many entries: one has some 200 bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """``digest`` names the evidence, ``chain`` is SHA-256 over the chain before and this entry."""

    sequence: int
    time: float
    kind: str
    digest: str
    chain: str

    def line(self) -> bytes:
        content = [self.sequence, self.time, self.kind, self.digest, self.chain]
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"


class Journal:
    """An append-only file. Writers take turns by a lock on it; a line torn by a kill is cut off by the next writer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, kind: str, digest: str) -> Entry:
        """Adds an entry, durably. DiskFullError, with the file as it was, when there is no room."""
        new = not self._path.exists()
        with self._locked() as descriptor:
            last = self._last(descriptor)
            sequence, chain = (last.sequence + 1, last.chain) if last else (0, START)
            now = round(time.time(), 6)
            entry = Entry(sequence, now, kind, digest, chained(chain, sequence, now, kind, digest))
            try:
                whole = os.fstat(descriptor).st_size
                with room_needed(self._path):
                    _write_all(descriptor, entry.line())
                    os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, whole)
                raise
        if new:
            sync_folder(self._path.parent)
        return entry

    def entries(self) -> Iterator[Entry]:
        """All whole entries in order. LedgerError where the chain does not hold."""
        chain, expected = START, 0
        for line in self._lines():
            entry = _parse(line, self._path)
            wanted = chained(chain, entry.sequence, entry.time, entry.kind, entry.digest)
            if entry.sequence != expected or entry.chain != wanted:
                raise LedgerError(
                    f"ledger: {self._path}: entry {expected} was altered, or one before it is gone"
                )
            yield entry
            chain, expected = entry.chain, expected + 1

    def size(self) -> int:
        """Bytes of whole lines; grows with each entry."""
        return sum(len(line) + 1 for line in self._lines())

    def _lines(self) -> list[bytes]:
        content = self._path.read_bytes() if self._path.exists() else b""
        return content[: content.rfind(b"\n") + 1].splitlines()

    def _last(self, descriptor: int) -> Entry | None:
        """The last whole entry; what stands behind it is the beginning of one whose writer was killed."""
        size = os.fstat(descriptor).st_size
        start = max(size - TAIL_BYTES, 0)
        tail = os.pread(descriptor, size - start, start)
        end = tail.rfind(b"\n") + 1
        if start + end < size:
            os.ftruncate(descriptor, start + end)
        lines = tail[:end].splitlines()
        return _parse(lines[-1], self._path) if lines else None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


def chained(before: str, sequence: int, when: float, kind: str, digest: str) -> str:
    """The chain after an entry."""
    return sha256(json.dumps([before, sequence, when, kind, digest]).encode()).hexdigest()


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _parse(line: bytes, path: Path) -> Entry:
    try:
        sequence, when, kind, digest, chain = json.loads(line)
        return Entry(int(sequence), float(when), str(kind), str(digest), str(chain))
    except (ValueError, TypeError) as error:
        raise LedgerError(f"ledger: {path}: expected an entry, found {line[:80]!r}") from error
