"""The rollback window: which places hold a sequence's recurrent states, and behind how many positions each stands.

A recurrence overwrites its state row by row, so a rejected row can only be taken back to a state that was kept. A pass
keeps the state before it, the live state after it, and the S states just before the live one; going back to any of them
is a matter of naming another place. Only what lies outside must be evaluated again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from verispec.errors import BackendError

NO_STATE = -1
"""Read before the first row of an empty sequence: all zeros."""


class StateColumns(NamedTuple):
    """One entry a row: the place read before it and the place written after it."""

    state_from: list[int]
    state_to: list[int]


@dataclass(frozen=True)
class Places:
    """The places of one sequence in the state cache: ``window`` + 2 from ``first`` on."""

    first: int
    window: int

    @property
    def all(self) -> range:
        return range(self.first, self.first + self.window + 2)


class StateWindow:
    """One sequence's held states. Lengths are committed or evaluated positions."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._held: dict[int, int] = {0: NO_STATE}
        self.keep = places.window
        """States kept before the live one: the request's S, at most the window."""
        self.block = 0
        """Where not 0, passes over a prompt keep the states at multiples of this length."""

    @property
    def places(self) -> range:
        return self._places.all

    def holds(self, length: int) -> bool:
        """Whether a row can be evaluated behind ``length`` positions."""
        return length in self._held

    def place(self, length: int) -> int:
        """Where the state behind ``length`` positions lies. Raises BackendError when it is not held."""
        if length not in self._held:
            held = ", ".join(map(str, sorted(self._held)))
            raise BackendError(
                f"recurrent state: expected a length whose state is held ({held}), found {length}: "
                "the rows behind an older state must be evaluated again"
            )
        return self._held[length]

    def oldest(self, length: int) -> int:
        """The shortest length above 0 from which every state up to ``length`` is held."""
        while length > 1 and length - 1 in self._held:
            length -= 1
        return length

    def advance(self, length: int, rows: int, reading: bool) -> StateColumns:
        """Columns for ``rows`` rows behind ``length`` positions, and what is held once they are evaluated.

        Rows whose state is not kept write where the first kept state will come to lie: they work in place. ``reading``:
        no output is wanted of them.
        """
        before = self.place(length)
        kept = [*self._kept(length, length + rows, reading), length + rows]
        free = [place for place in self._places.all if place != before]
        place_of = dict(zip(kept, free, strict=False))
        written = [place_of.get(length + row + 1, free[0]) for row in range(rows)]
        for row in range(rows - 2, -1, -1):  # in place until the next kept one
            if length + row + 1 not in place_of:
                written[row] = written[row + 1]
        self._held = {0: NO_STATE, length: before, **place_of}
        return StateColumns([before, *written[:-1]], written)

    def _kept(self, begin: int, end: int, reading: bool) -> range:
        """The lengths between ``begin`` and ``end`` whose states a pass keeps."""
        if reading and self.block:
            last = (end - 1) // self.block * self.block
            first = max(
                begin // self.block * self.block + self.block, last - (self._places.window - 1) * self.block
            )
            return range(first, last + 1, self.block) if self._places.window else range(0)
        return range(max(end - min(self.keep, self._places.window), begin + 1), end)

    def forget_after(self, length: int) -> None:
        """A pass behind ``length`` positions has failed: no state that it would have left is there."""
        self._held = {held: place for held, place in self._held.items() if held <= length}

    def loaded(self, length: int) -> int:
        """The place for a state that stands behind ``length`` positions, which an empty sequence is given."""
        self._held = {0: NO_STATE, length: self._places.first}
        return self._places.first

    def forget(self) -> None:
        """The sequence is empty: nothing is held."""
        self._held = {0: NO_STATE}
