"""Sequence slots: how far each is committed, evaluated, and still remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verispec.errors import BackendError


@dataclass(frozen=True)
class Ring:
    """A layer that keeps ``kept`` positions, of which a row sees ``window``."""

    kept: int
    window: int


@dataclass
class Slot:
    """One open sequence. Positions below ``length`` are committed, below ``evaluated`` written.

    ``reach`` is one past the highest position ever written since the slot was empty: what a ring has
    displaced depends on it, whatever was taken back since.
    """

    length: int = 0
    evaluated: int = 0
    reach: int = 0


class Slots:
    """The slots of one cache."""

    def __init__(self, count: int, rings: Sequence[Ring]) -> None:
        self.count = count
        self._rings = [*dict.fromkeys(rings)]
        self._open: dict[int, Slot] = {}

    def open(self) -> int:
        """The lowest free slot, empty. Raises BackendError when all are taken."""
        for index in range(self.count):
            if index not in self._open:
                self._open[index] = Slot()
                return index
        raise BackendError(f"sequences: expected at most {self.count} open at once, found one more")

    def close(self, index: int) -> None:
        self.state(index)
        del self._open[index]

    def state(self, index: int) -> Slot:
        slot = self._open.get(index)
        if slot is None:
            raise BackendError(f"sequence {index}: expected an open one, found {sorted(self._open)}")
        return slot

    def oldest_length(self, index: int) -> int:
        """The shortest length whose next row still finds every key it sees."""
        reach = self.state(index).reach
        displaced = [ring for ring in self._rings if reach > ring.kept]
        return max((reach - ring.kept + ring.window - 1 for ring in displaced), default=0)

    def check_resident(self, index: int, length: int) -> None:
        """Raises BackendError when no row can be evaluated at position ``length``."""
        oldest = self.oldest_length(index)
        if 0 < length < oldest:
            raise BackendError(
                f"sequence {index}: expected length 0 or at least {oldest}, found {length}: "
                "sliding windows no longer hold the keys before it, so the prefix must be evaluated again"
            )

    def begin(self, index: int) -> None:
        """Drops what was evaluated and not committed; an empty sequence displaces nothing."""
        slot = self.state(index)
        self.check_resident(index, slot.length)
        slot.evaluated = slot.length
        if not slot.length:
            slot.reach = 0

    def wrote(self, index: int, end: int) -> None:
        """Positions below ``end`` have been written."""
        slot = self.state(index)
        slot.evaluated = end
        slot.reach = max(slot.reach, end)

    def commit(self, index: int, length: int) -> None:
        slot = self.state(index)
        if not 0 <= length <= slot.evaluated:
            expected = f"a length in 0..{slot.evaluated} (evaluated)"
            raise BackendError(f"commit of sequence {index}: expected {expected}, found {length}")
        self.check_resident(index, length)
        slot.length = slot.evaluated = length
