"""Block drafters by native passes, with a cache of their own: DFlash, and DSpark with its two heads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.backends.contract import COMMITTED, Row
from verispec.backends.draft_block import BlockPrediction, DraftBlock, FollowingBlock
from verispec.backends.native_draft import HeadParts
from verispec.backends.scattered_logits import ScatteredLogits
from verispec.models.dflash import BLOCK_HIDDEN, build_dflash
from verispec.models.dspark import BIAS, CONFIDENCE_LOGIT, build_dspark_heads
from verispec.ops.native import PassKind

Hidden = npt.NDArray[np.float32]
_FOLLOW = PassKind(1, 0, False, frozenset({BIAS, CONFIDENCE_LOGIT}))


class NativeDFlash(DraftBlock):
    """Not thread-safe, as the backend is not."""

    def __init__(self, parts: HeadParts, ids: npt.NDArray[np.int64] | None) -> None:
        """``ids``: the target's token of each output; None where output i is token i."""
        draft = parts.draft
        graph = build_dflash(draft, parts.tensors, parts.embedding, parts.head, parts.rope_factors)
        workspace = _native.Workspace()
        self._contexts = parts.passes(lambda ops, outputs, taps: graph.context(ops), workspace)
        self._blocks = parts.passes(lambda ops, outputs, taps: graph.block(ops, bool(taps)), workspace)
        self._positions = parts.cache.positions
        self._columns = parts.draft.features
        self._rows = min(parts.target.limits.rows, self._positions)
        self._masks = [draft.mask_token] * (draft.block - 1)
        self._predicting = list(range(draft.block - draft.width, draft.block))
        self._kind = PassKind(draft.block, draft.width, True, frozenset({BLOCK_HIDDEN}))
        self._scattered = ScatteredLogits(ids, draft.decoder.vocabulary)
        self._lengths: dict[int, int] = {}

    @property
    def positions(self) -> int:
        return self._positions

    @property
    def columns(self) -> int:
        return self._columns

    @property
    def width(self) -> int:
        return len(self._predicting)

    def absorb(self, sequence: int, position: int, hidden: Hidden) -> None:
        count = min(len(hidden), self._positions - position)
        for begin in range(0, count, self._rows):
            end = min(begin + self._rows, count)
            program = self._contexts.program(PassKind(end - begin, 0, False, frozenset()))
            rows = [Row(sequence, position + i, 0, COMMITTED) for i in range(begin, end)]
            program.evaluate(rows, [], inputs=[hidden[begin:end]])
        self._lengths[sequence] = position + len(hidden)

    def predict(self, sequence: int, position: int, anchor: int) -> BlockPrediction:
        tokens = [anchor, *self._masks]
        rows = [Row(sequence, position + i, token, COMMITTED) for i, token in enumerate(tokens)]
        program = self._blocks.program(self._kind)
        program.evaluate(rows, self._predicting)
        return BlockPrediction(program.logits(), program.hidden(BLOCK_HIDDEN))

    def resume(self, sequence: int, length: int) -> bool:
        return self._lengths.get(sequence) == length

    def scattered(self, logits: Hidden) -> Hidden:
        return self._scattered.scatter(logits)

    def used(self, sequence: int) -> bool:
        """Whether anything was absorbed in the sequence."""
        return sequence in self._lengths

    def length(self, sequence: int) -> int:
        """How many positions there is context of."""
        return self._lengths.get(sequence, 0)

    def overwritten(self, sequence: int, length: int) -> None:
        """Other tokens may come behind ``length`` positions."""
        if sequence in self._lengths:
            self._lengths[sequence] = min(self._lengths[sequence], length)

    def block_end(self, sequence: int, length: int) -> Hidden | None:
        """An empty row where the context of ``length`` positions is there: what follows needs nothing of it."""
        return np.zeros((1, 0), np.float32) if self._lengths.get(sequence, 0) >= length else None

    def loaded(self, sequence: int, length: int, end: Hidden) -> None:
        """The context of ``length`` positions has been copied in; ``end`` is what ``block_end`` gave there."""
        self._lengths[sequence] = length

    def forget(self, sequence: int) -> None:
        """The sequence is closed."""
        self._lengths.pop(sequence, None)


class NativeDSpark(NativeDFlash, FollowingBlock):
    """Its heads work in a workspace of their own, so that a block's results outlive their steps."""

    def __init__(self, parts: HeadParts, ids: npt.NDArray[np.int64] | None) -> None:
        super().__init__(parts, ids)
        heads = build_dspark_heads(parts.draft, parts.tensors)
        self._following = parts.passes(lambda ops, outputs, taps: heads.step(ops), _native.Workspace())

    def follow(self, previous: int, hidden: Hidden) -> tuple[Hidden, float]:
        program = self._following.program(_FOLLOW)
        program.evaluate([Row(0, 0, previous, COMMITTED)], [], inputs=[hidden[None]])
        return program.hidden(BIAS)[0], float(program.hidden(CONFIDENCE_LOGIT)[0, 0])
