"""A little room kept aside, so that a full disk can still be written down."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

BYTES = 512 * 1024


class Reserve:
    """A file of real blocks; giving it up makes room for the record of a lane that the disk cut short."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self) -> None:
        """Takes the room; on a disk that is full already there is none to take."""
        if self._path.exists() and self._path.stat().st_size == BYTES:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("wb") as file:
                file.write(os.urandom(BYTES))  # no file system stores it in less
                os.fsync(file.fileno())

    def give_up(self) -> bool:
        """Frees the room; False when there was none."""
        if not self._path.exists():
            return False
        self._path.unlink()
        return True
