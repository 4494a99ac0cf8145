"""The ledger's index, brought up to date when the journal has grown and left alone when it has not."""

from __future__ import annotations

import threading

from verispec.lab.ledger.ledger import Ledger


class FreshIndex:
    """Reading a long journal takes a while; its size says whether there is anything to read."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._seen: int | None = None

    def refresh(self) -> None:
        """May be called before every answer. LedgerError where the journal was altered."""
        with self._lock:
            size = self._size()
            if size != self._seen:
                self._ledger.refresh_index()
                self._seen = size

    def forget(self) -> None:
        """After the index turned out to be damaged: the next answer makes it again."""
        self._seen = None

    def _size(self) -> int:
        journal, index = self._ledger.home / "journal", self._ledger.home / "index.sqlite"
        if not index.exists():
            return -1
        return journal.stat().st_size if journal.exists() else 0
