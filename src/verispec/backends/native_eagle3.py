"""An EAGLE-3 head by native passes, with a cache of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.backends.contract import COMMITTED, Row
from verispec.backends.native_draft import HeadParts
from verispec.backends.native_prediction import PredictionEntries
from verispec.backends.prediction_block import Prediction, PredictionBlock
from verispec.backends.scattered_logits import ScatteredLogits
from verispec.models.eagle3 import FED_BACK, build_eagle3
from verispec.ops.contract import KEY_BLOCK
from verispec.ops.native import PassKind

Hidden = npt.NDArray[np.float32]
_TAPS = frozenset({FED_BACK})
_READ = PassKind(1, 1, True, frozenset())
_STEP = PassKind(1, 1, True, _TAPS)


class NativeEagle3(PredictionBlock):
    """Not thread-safe, as the backend is not."""

    def __init__(self, parts: HeadParts, ids: npt.NDArray[np.int64] | None) -> None:
        """``ids``: the target's token of each output; None where output i is token i."""
        graph = build_eagle3(parts.draft, parts.tensors, parts.embedding, parts.head, parts.rope_factors)
        workspace = _native.Workspace()
        self._filling = parts.passes(lambda ops, outputs, taps: graph.fill(ops, outputs), workspace)
        self._reading = parts.passes(lambda ops, outputs, taps: graph.read(ops), workspace)
        self._stepping = parts.passes(lambda ops, outputs, taps: graph.step(ops, outputs), workspace)
        self._rows = min(parts.target.limits.rows, parts.cache.positions)
        self._positions = parts.cache.positions
        self._columns = parts.draft.features
        self._scattered = ScatteredLogits(ids, parts.draft.decoder.vocabulary)
        self._entries = PredictionEntries()
        self._ends: dict[int, dict[int, Hidden]] = {}
        self._used: set[int] = set()

    @property
    def positions(self) -> int:
        return self._positions

    @property
    def columns(self) -> int:
        return self._columns

    def absorb(self, sequence: int, position: int, tokens: Sequence[int], hidden: Hidden) -> Hidden:
        count = min(len(tokens), self._positions - position)
        last = hidden[-1:]
        for begin in range(0, count, self._rows):
            end = min(begin + self._rows, count)
            rows = [Row(sequence, position + i, tokens[i], COMMITTED) for i in range(begin, end)]
            program = self._filling.program(PassKind(len(rows), 1, False, _TAPS))
            program.evaluate(rows, [len(rows) - 1], inputs=[hidden[begin:end]])
            last = program.hidden(FED_BACK)
        self._used.add(sequence)
        self._entries.note(sequence, position + len(tokens) - 1, hidden[-1:].copy())
        self._note_block_ends(sequence, position, hidden)
        return last.copy()

    def _note_block_ends(self, sequence: int, position: int, hidden: Hidden) -> None:
        """What the entries behind the prefix blocks are made from that these positions complete; row i of ``hidden`` is
        of position ``position - 1 + i``."""
        first = -(-position // KEY_BLOCK) * KEY_BLOCK
        ends = range(first, position + len(hidden), KEY_BLOCK)
        self._ends[sequence] = {end: hidden[end - position : end - position + 1].copy() for end in ends}

    def first(self, hidden: Hidden) -> Prediction:
        program = self._reading.program(_READ)
        program.evaluate([Row(0, 0, 0, COMMITTED)], [0], inputs=[hidden])
        return Prediction(program.logits()[0], hidden)

    def step(self, sequence: int, position: int, token: int, hidden: Hidden) -> Prediction:
        program = self._stepping.program(_STEP)
        # a copy, since the pass may lie over what the last one gave
        program.evaluate([Row(sequence, position, token, COMMITTED)], [0], inputs=[hidden.copy()])
        return Prediction(program.logits()[0], program.hidden(FED_BACK))

    def resume(self, sequence: int, length: int) -> Hidden | None:
        return self._entries.behind(sequence, length)

    def scattered(self, logits: Hidden) -> Hidden:
        return self._scattered.scatter(logits)

    def used(self, sequence: int) -> bool:
        """Whether anything was absorbed in the sequence."""
        return sequence in self._used

    def length(self, sequence: int) -> int:
        """How many positions there are entries for."""
        return self._entries.length(sequence)

    def overwritten(self, sequence: int, length: int) -> None:
        """Other tokens may come behind ``length`` positions."""
        self._entries.overwritten(sequence, length)
        ends = self._ends.get(sequence)
        if ends:
            self._ends[sequence] = {end: hidden for end, hidden in ends.items() if end <= length}

    def block_end(self, sequence: int, length: int) -> Hidden | None:
        """What the entry behind ``length`` positions is made from, where that ends a block just completed."""
        return self._ends.get(sequence, {}).get(length)

    def loaded(self, sequence: int, length: int, end: Hidden) -> None:
        """The entries of ``length`` positions have been copied in; ``end`` is what ``block_end`` gave there."""
        self._used.add(sequence)
        self._entries.note(sequence, length, end)

    def forget(self, sequence: int) -> None:
        """The sequence is closed."""
        self._used.discard(sequence)
        self._entries.forget(sequence)
        self._ends.pop(sequence, None)
