"""Recurrent states of the native backend: one cache of places, and each sequence's window over its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verispec import _native
from verispec.backends.contract import Row
from verispec.backends.state_window import Places, StateColumns, StateWindow
from verispec.errors import BackendError
from verispec.models.hyperparameters import Hyperparameters
from verispec.models.memory import PassLimits


class NativeStates:
    """``sequences`` * (``window`` + 2) places, each a copy of all recurrent layers' state in float32."""

    def __init__(self, model: Hyperparameters, limits: PassLimits, block: int) -> None:
        """``block``: the length of a prefix block."""
        delta = model.delta_net
        assert delta is not None
        floats = delta.convolution_floats, delta.recurrent_floats
        layers = [floats if recurs else (0, 0) for recurs in model.recurrent]
        self.cache = _native.StateCache(limits.sequences * (limits.window + 2), layers)
        self._window = limits.window
        self._block = block
        self._windows: dict[int, StateWindow] = {}

    def open(self, sequence: int) -> None:
        self._windows[sequence] = StateWindow(Places(sequence * (self._window + 2), self._window))

    def close(self, sequence: int) -> None:
        """Forgets the sequence and gives its memory back."""
        window = self._windows.pop(sequence)
        if not self.cache.closed:
            for place in window.places:
                self.cache.discard(place)

    def keep(self, sequence: int, states: int, block_ends: bool) -> None:
        """See ``BackendAdapter.keep_states``. Raises BackendError for more states than there is room for."""
        if not 0 <= states <= self._window:
            raise BackendError(f"recurrent states: expected 0 to {self._window} kept, found {states}")
        self._windows[sequence].keep = states
        self._windows[sequence].block = self._block if block_ends else 0

    def window(self, sequence: int) -> StateWindow:
        return self._windows[sequence]

    def failed(self, lengths: Mapping[int, int]) -> None:
        """A pass behind ``lengths`` left no states."""
        for sequence, length in lengths.items():
            self._windows[sequence].forget_after(length)

    def advance(
        self, rows: Sequence[Row], lengths: Mapping[int, int], outputs: Sequence[int]
    ) -> StateColumns:
        """Columns for a pass over ``rows``, behind the committed ``lengths`` of their sequences.

        Raises BackendError unless the rows of each sequence stand together.
        """
        wanted = {rows[output].sequence for output in outputs}
        columns = StateColumns([], [])
        done: set[int] = set()
        for begin, end in _runs(rows):
            sequence = rows[begin].sequence
            if sequence in done:
                raise BackendError(
                    f"row {begin}: expected the rows of sequence {sequence} to stand together, as a recurrence needs "
                    "them, found others between"
                )
            done.add(sequence)
            window = self._windows[sequence]
            state_from, state_to = window.advance(lengths[sequence], end - begin, sequence not in wanted)
            columns.state_from.extend(state_from)
            columns.state_to.extend(state_to)
        return columns


def _runs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Ranges of neighbouring rows of one sequence."""
    starts = [i for i, row in enumerate(rows) if i == 0 or row.sequence != rows[i - 1].sequence]
    return list(zip(starts, [*starts[1:], len(rows)], strict=True))
