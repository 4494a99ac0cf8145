"""The ledger: evidence goes in and comes out, and nothing is ever changed."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verispec.lab.ledger.index import Index
from verispec.lab.ledger.journal import Entry, Journal
from verispec.lab.ledger.objects import DiskFullError, LedgerError, ObjectStore
from verispec.lab.ledger.reserve import Reserve

Record = dict[str, Any]


class Ledger:
    """Under ``home``: ``objects/`` (evidence), ``journal`` (its order), ``logs/``, ``index.sqlite`` (made from them).

    An object is written before the journal names it: after a kill in between it is there and not named, and
    ``adopt`` names it.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.objects = ObjectStore(home / "objects")
        self.logs = ObjectStore(home / "logs")
        self._journal = Journal(home / "journal")
        self._reserve = Reserve(home / "reserve")
        self.index = Index(home / "index.sqlite")

    def add(self, record: Record) -> str:
        """Keeps a record, whose ``kind`` says what it is, and gives its digest. DiskFullError when there is no room."""
        self._reserve.fill()
        with self._writing(fcntl.LOCK_SH):
            return self._put(record)

    def add_at_last(self, record: Record) -> str:
        """As ``add``, with the room kept aside: for the record that says that the disk is full."""
        try:
            return self.add(record)
        except DiskFullError:
            if not self._reserve.give_up():
                raise
            with self._writing(fcntl.LOCK_SH):
                return self._put(record)

    def add_log(self, content: bytes) -> str:
        """Keeps a log and gives its digest."""
        return self.logs.put_bytes(content, ".log")

    def get(self, digest: str) -> Record:
        record: Record = self.objects.get(digest)
        return record

    def entries(self) -> Iterator[Entry]:
        """The journal, in order."""
        return self._journal.entries()

    def records(self, kind: str | None = None) -> Iterator[tuple[Entry, Record]]:
        """Every record in order, or those of one kind."""
        for entry in self.entries():
            if kind in (None, entry.kind):
                yield entry, self.get(entry.digest)

    def adopt(self) -> list[str]:
        """Names objects that a kill left without an entry; gives their digests. Waits for whoever is writing one."""
        with self._writing(fcntl.LOCK_EX):
            named = {entry.digest for entry in self.entries()}
            found = [digest for digest in self.objects.digests() if digest not in named]
            for digest in found:
                self._put(self.get(digest))
        return found

    def refresh_index(self) -> None:
        """Brings the index up to the journal: adds what is new, or makes it again where it does not fit."""
        entries = list(self.entries())
        known = self.index.state()
        fits = known is not None and (
            known[0] <= len(entries) and (known[0] == 0 or entries[known[0] - 1].chain == known[1])
        )
        if known is None or not fits:
            self.index.start_again()
            known = (0, "")
        if entries[known[0] :]:
            self.index.add((entry, self.get(entry.digest)) for entry in entries[known[0] :])

    def find(self, name: str, kind: str | None = None) -> tuple[str, Record]:
        """The one record whose digest, lane or experiment begins with ``name``. LedgerError when it is not one."""
        self.refresh_index()
        digests = self.index.matching(name, kind)
        if len(digests) != 1:
            found = "none" if not digests else ", ".join(digest[:12] for digest in digests[:5])
            raise LedgerError(f"ledger: expected one record that begins with {name!r}, found {found}")
        return digests[0], self.get(digests[0])

    def rows(self, lane: Record) -> list[Record]:
        """The raw rows of a lane record."""
        return [self.get(digest) for digest in lane["rows"]]

    def _put(self, record: Record) -> str:
        digest = self.objects.put(record)
        self._journal.append(str(record["kind"]), digest)
        return digest

    @contextmanager
    def _writing(self, how: int) -> Iterator[None]:
        """Writers share the lock; whoever looks for what they left unnamed has it alone. A kill frees it."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "writers").open("a") as lock:
            fcntl.flock(lock, how)
            yield
