"""Sequence slots: how far each is committed, evaluated, and still remembered."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from verispec.errors import BackendError


@dataclass(frozen=True)
class Ring:
    """A layer that keeps ``kept`` positions, of which a row sees ``window``."""

    kept: int
    window: int


@dataclass(eq=False)
class Slot:
    """One open sequence. Positions below ``length`` are committed, below ``evaluated`` written.

    ``reach`` is one past the highest position ever written since the slot was empty: what a ring has
    displaced depends on it, whatever was taken back since. ``writes`` counts evaluations. ``written``
    holds (first position, number) of those that no later one has covered, both ascending: an evaluation writes
    everything from its first position to wherever anything has been written behind it that still counts.
    """

    written: list[tuple[int, int]] = field(default_factory=list)
    length: int = 0
    evaluated: int = 0
    reach: int = 0
    writes: int = 0


@dataclass(frozen=True)
class SlotState:
    """What a checkpoint remembers: the slot, and how many evaluations it had seen."""

    slot: Slot
    writes: int


class Slots:
    """The ``count`` slots of one cache, some of whose layers may be rings."""

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

    def is_open(self, index: int) -> bool:
        return index in self._open

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
        if not self._rings:
            return 0
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
        slot.writes += 1
        covered = bisect_left(slot.written, (slot.length, 0))
        slot.written[covered:] = [(slot.length, slot.writes)]
        slot.evaluated = end
        slot.reach = max(slot.reach, end)

    def commit(self, index: int, length: int) -> None:
        slot = self.state(index)
        if not 0 <= length <= slot.evaluated:
            expected = f"a length in 0..{slot.evaluated} (evaluated)"
            raise BackendError(f"commit of sequence {index}: expected {expected}, found {length}")
        self.check_resident(index, length)
        slot.length = slot.evaluated = length

    def check_held(self, index: int, begin: int, end: int) -> None:
        """Raises BackendError unless [begin, end) is committed and every ring still holds all of it."""
        slot = self.state(index)
        if end > slot.length:
            raise BackendError(f"sequence {index}: expected {end} committed positions, found {slot.length}")
        for ring in self._rings:
            if slot.reach > begin + ring.kept:
                raise BackendError(
                    f"sequence {index}: expected positions {begin} to {end - 1} still held, found them partly "
                    f"displaced: a sliding window keeps {ring.kept} positions below {slot.reach}"
                )

    def loaded(self, index: int, length: int) -> None:
        """The first ``length`` positions of a sequence that was empty are there, as if evaluated in order."""
        self.wrote(index, length)
        self.commit(index, length)

    def checkpoint(self, index: int) -> SlotState:
        slot = self.state(index)
        return SlotState(slot, slot.writes)

    def restore(self, index: int, length: int, state: SlotState) -> None:
        """Back to ``length`` positions. Raises BackendError when they are no longer what they were."""
        slot = self.state(index)
        before = bisect_left(slot.written, (length, 0))  # evaluations that wrote anything below ``length``
        if slot is not state.slot or (before and slot.written[before - 1][1] > state.writes):
            raise BackendError(
                f"restore of sequence {index}: expected the {length} positions of the checkpoint, "
                "found them evaluated anew since"
            )
        self.check_resident(index, length)
        slot.length = slot.evaluated = length
