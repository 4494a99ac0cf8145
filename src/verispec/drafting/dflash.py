"""Strategy ``dflash``: a block-diffusion head gives all tokens of a proposal in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from verispec.backends.draft_block import BlockPrediction, DraftBlock
from verispec.drafting.contract import CONTEXT_LIMIT, NOTHING, Drafter, Proposal
from verispec.drafting.entry_chain import greatest_probability, joined
from verispec.drafting.late_states import LateStates, Waiting
from verispec.drafting.sources import Choose

Hidden = npt.NDArray[np.float32]
Mark = tuple[int, int, Waiting, int | None, dict[str, int]]


class DFlashDrafter(Drafter):
    """The context of every committed position is written from the hidden states of the pass that evaluated it, when a
    block is asked for. It is always drafted whole, as the head was trained: a narrower proposal is its beginning.

    Confidence is the greatest probability of the draft, before any temperature.
    """

    name = "dflash"

    def __init__(
        self,
        block: DraftBlock,
        taps: tuple[int, ...],
        sequence: int,
        choose: Choose,
        p_min: float = 0.0,
    ) -> None:
        """``taps``: the hidden states that the head was trained on, in its order."""
        self.taps = taps
        self.declined: dict[str, int] = {}
        self._block = block
        self._sequence = sequence
        self._choose = choose
        self._p_min = p_min
        self._observed = 0
        self._length = 0  # positions whose hidden states are known
        self._states = LateStates(0, self._write)
        self._anchor: int | None = None
        self._resumed: int | None = None  # found once: a round that fails may have written context behind it

    def observe(self, tokens: Sequence[int]) -> None:
        """Counts them: a block follows once the context reaches up to the anchor."""
        self._observed += len(tokens)
        if tokens:
            self._anchor = tokens[-1]

    def absorb(self, first: int, tokens: Sequence[int], hidden: Mapping[int, Hidden]) -> None:
        if first and not self._length:
            if self._resumed != first and not self._block.resume(self._sequence, first):
                raise ValueError(
                    f"{self.name}: expected the context of the {first} positions reused, found none"
                )
            self._resumed = first
        elif first > self._length:
            raise ValueError(
                f"{self.name}: expected positions from {self._length} on, found {first}: some were never shown"
            )
        self._states.take(first, tokens[:-1], joined(self.taps, hidden))
        self._length = first + len(tokens) - 1

    def _write(self, position: int, tokens: Sequence[int], hidden: Hidden) -> None:
        self._block.absorb(self._sequence, position, hidden)

    def settle(self) -> None:
        self._states.settle()

    def propose(self, limit: int) -> Proposal:
        if limit <= 0 or not self._length or self._length != self._observed - 1:
            return NOTHING  # part of the prompt is still to come, in the pass that this proposal would be for
        if self._length + self._block.width >= self._block.positions:
            self.declined[CONTEXT_LIMIT] = self.declined.get(CONTEXT_LIMIT, 0) + 1
            return NOTHING
        self.settle()
        assert self._anchor is not None
        prediction = self._block.predict(self._sequence, self._length, self._anchor)
        return self._drawn(prediction, min(limit, self._block.width))

    def _drawn(self, prediction: BlockPrediction, width: int) -> Proposal:
        """The tokens of the first ``width`` rows, up to one that is not to be trusted."""
        tokens: list[int] = []
        confidences: list[float] = []
        for row in range(width):
            logits, confidence = self._judged(prediction, row, tokens)
            if confidence < self._p_min:
                break
            tokens.append(self._choose(self._block.scattered(logits), self._length + 1 + row))
            confidences.append(confidence)
        return Proposal(tokens, confidences)

    def _judged(self, prediction: BlockPrediction, row: int, tokens: Sequence[int]) -> tuple[Hidden, float]:
        """The logits of one row, ``tokens`` being those drawn before it, and the confidence there."""
        return prediction.logits[row], greatest_probability(prediction.logits[row])

    def checkpoint(self) -> Mark:
        return self._observed, self._length, self._states.checkpoint(), self._anchor, dict(self.declined)

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"drafter checkpoint: expected one this drafter made, found {checkpoint!r}")
        self._observed, self._length, waiting, self._anchor, declined = checkpoint
        self._states.restore(waiting)
        self.declined = dict(declined)
