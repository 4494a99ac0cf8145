"""The prediction block of a native model: its passes beside the target's, and its heads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.artifacts.model_file import ModelFile
from verispec.backends.contract import COMMITTED, Row
from verispec.backends.prediction_block import Prediction, PredictionBlock
from verispec.backends.scattered_logits import ScatteredLogits
from verispec.errors import MemoryLimitError
from verispec.models.memory import available_memory
from verispec.models.prediction import PredictionBlock as PredictionGraph
from verispec.ops.contract import AFTER_FINAL_NORM
from verispec.ops.native import Graph, NativeOperations, NativePasses, PassKind
from verispec.ops.native_weights import NativeWeights

Hidden = npt.NDArray[np.float32]
_TAPS = frozenset({AFTER_FINAL_NORM})
_FIRST = PassKind(1, 1, True, frozenset())
_STEP = PassKind(1, 1, True, _TAPS)


class PredictionEntries:
    """How far each sequence's entries are complete, and the target's hidden state there."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Hidden]] = {}

    def note(self, sequence: int, length: int, hidden: Hidden) -> None:
        """The entries of ``length`` positions and the one behind them are there; ``hidden`` is that of the last."""
        self._known[sequence] = length, hidden

    def behind(self, sequence: int, length: int) -> Hidden | None:
        """The hidden state behind exactly ``length`` positions, ``[1, hidden_size]``, if it is known."""
        known = self._known.get(sequence)
        return known[1] if known is not None and known[0] == length else None

    def length(self, sequence: int) -> int:
        """How many positions they are complete for."""
        known = self._known.get(sequence)
        return 0 if known is None else known[0]

    def used(self, sequence: int) -> bool:
        """Whether anything was absorbed in the sequence, and stands."""
        return sequence in self._known

    def overwritten(self, sequence: int, length: int) -> None:
        """Other tokens may come behind ``length`` positions: entries that reach further are no longer theirs."""
        known = self._known.get(sequence)
        if known is not None and known[0] > length:
            del self._known[sequence]

    def forget(self, sequence: int) -> None:
        self._known.pop(sequence, None)


class NativePredictionPasses:
    """What all heads share: the passes that only fill the cache, in a workspace of their own.

    The target's hidden states stay in the target's workspace, and are read there.
    """

    def __init__(
        self,
        graph: PredictionGraph,
        weights: NativeWeights,
        cache: _native.KvCache,
        pool: _native.ThreadPool,
        isa: str,
        max_rows: int,
    ) -> None:
        self.graph = graph
        self.weights = weights
        self.max_rows = max_rows
        self.positions = cache.positions
        self.entries = PredictionEntries()
        self._parts = cache, pool, isa, _native.Workspace()
        self._filling = self._passes(lambda ops, outputs, taps: graph.fill(ops, outputs))

    def _passes(self, run: Graph) -> NativePasses:
        cache, pool, isa, workspace = self._parts
        return NativePasses(run, self.weights, cache, pool, isa, workspace=workspace)

    def fill(self, rows: Sequence[Row], hidden: Hidden) -> Hidden:
        """Writes entries for ``rows``; the last one's hidden state, a view."""
        program = self._filling.program(PassKind(len(rows), 1, False, _TAPS))
        program.evaluate(rows, [len(rows) - 1], inputs=[hidden])
        return program.hidden(AFTER_FINAL_NORM)

    def head(self, name: str) -> tuple[NativePasses, NativePasses]:
        """The passes that read a head off a hidden state, and those that make an entry and read it."""

        def read(ops: NativeOperations, outputs: int, taps: frozenset[int]) -> None:
            self.graph.read(ops, name)

        def step(ops: NativeOperations, outputs: int, taps: frozenset[int]) -> None:
            self.graph.run(ops, outputs, taps, name)

        return self._passes(read), self._passes(step)


class NativePredictionBlock(PredictionBlock):
    """The block with one head. Not thread-safe, as the backend is not."""

    def __init__(
        self, passes: NativePredictionPasses, head: str, ids: npt.NDArray[np.int64] | None, vocabulary: int
    ) -> None:
        """``ids``: the target's token of each output of ``head``; None where output i is token i."""
        self._passes = passes
        reading, stepping = passes.head(head)
        self._reading, self._stepping = reading.program(_FIRST), stepping.program(_STEP)
        self._scattered = ScatteredLogits(ids, vocabulary)

    @property
    def positions(self) -> int:
        return self._passes.positions

    @property
    def columns(self) -> int:
        return self._passes.graph.hidden_size

    def absorb(self, sequence: int, position: int, tokens: Sequence[int], hidden: Hidden) -> Hidden:
        passes = self._passes
        count = min(
            len(tokens), passes.positions - position
        )  # the last anchor of a full context has no place
        last = hidden[-1:]
        for begin in range(0, count, passes.max_rows):
            end = min(begin + passes.max_rows, count)
            rows = [Row(sequence, position + i, tokens[i], COMMITTED) for i in range(begin, end)]
            last = passes.fill(rows, hidden[begin:end])
        passes.entries.note(sequence, position + len(tokens) - 1, hidden[-1:].copy())
        return last.copy()

    def first(self, hidden: Hidden) -> Prediction:
        program = self._reading
        program.evaluate([Row(0, 0, 0, COMMITTED)], [0], inputs=[hidden])
        return Prediction(program.logits()[0], hidden)

    def step(self, sequence: int, position: int, token: int, hidden: Hidden) -> Prediction:
        program = self._stepping
        # a copy, since the pass may lie over what the last one gave
        program.evaluate([Row(sequence, position, token, COMMITTED)], [0], inputs=[hidden.copy()])
        return Prediction(program.logits()[0], program.hidden(AFTER_FINAL_NORM))

    def resume(self, sequence: int, length: int) -> Hidden | None:
        return self._passes.entries.behind(sequence, length)

    def scattered(self, logits: Hidden) -> Hidden:
        return self._scattered.scatter(logits)


HEADS_KEPT = 4
"""Heads a model keeps beside those in use: a request may ask for a size that nobody has asked for before."""


class NativePredictionHeads:
    """The heads used last."""

    def __init__(
        self, passes: NativePredictionPasses, file: ModelFile, vocabulary: int, pool: _native.ThreadPool
    ) -> None:
        self._passes = passes
        self._file = file
        self._vocabulary = vocabulary
        self._pool = pool
        self._blocks: dict[str, NativePredictionBlock] = {}

    @property
    def entries(self) -> PredictionEntries:
        return self._passes.entries

    def block(self, rows: int | None, ranked: npt.NDArray[np.int64] | None) -> NativePredictionBlock:
        """See ``BackendAdapter.prediction_block``."""
        head = self._passes.graph.head
        matrices = self._passes.weights.matrices
        name = head
        if ranked is not None:
            name = f"{head} rows {hashlib.sha256(ranked.tobytes()).hexdigest()}"
        elif rows is not None:
            name = f"{head} rows 0 to {rows - 1}"
        block = self._blocks.pop(name, None)
        if block is None:
            if ranked is not None:
                matrices[name] = pack_rows(self._file, head, ranked, self._pool)
            elif rows is not None:
                matrices[name] = matrices[head].first_rows(rows)
            block = NativePredictionBlock(self._passes, name, ranked, self._vocabulary)
            if name != head:
                del matrices[name]  # the recorded passes hold it for as long as anybody has the block
        self._blocks[name] = block  # last in order: most recently used
        if len(self._blocks) > HEADS_KEPT:
            del self._blocks[next(iter(self._blocks))]
        return block


def pack_rows(
    file: ModelFile, name: str, rows: npt.NDArray[np.int64], pool: _native.ThreadPool
) -> _native.Matrix:
    """The ``rows`` of matrix ``name``, in that order, from the file once more. Raises MemoryLimitError when there is no
    room for a copy."""
    tensor = file.tensors[name]
    outputs, columns = tensor.shape
    chosen = np.ascontiguousarray(file.data(name).reshape(outputs, -1)[rows]).reshape(-1)
    size, available = _native.Weights.packed_size(tensor.type.name, len(rows), columns), available_memory()
    if size > available:
        raise MemoryLimitError(
            f"draft head: expected at most {available} bytes (what is available), found a need of {size} for "
            f"{len(rows)} rows of {name}; a smaller spec_mtp_fr_vocab_size needs less"
        )
    store = _native.Weights(size)
    matrix = store.pack(tensor.type.name, len(rows), columns, chosen, pool)
    file.release(name)
    return matrix
