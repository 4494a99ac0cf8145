"""Strategy ``mtp``: the target's own prediction block, applied again and again to what it gave itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.backends.contract import PredictionBlock
from verispec.drafting.contract import NOTHING, Drafter, Proposal
from verispec.drafting.sources import Choose
from verispec.ops.contract import AFTER_FINAL_NORM

Hidden = npt.NDArray[np.float32]


class MtpDrafter(Drafter):
    """Multi-token prediction as Qwen3.5 publishes it: one block, its entries made from the target's hidden states.

    Entries are written for every committed token, the prompt's included, from the hidden states of the pass that
    evaluated it: those that a proposal had written from guesses are overwritten. The proposal then goes on from the
    anchor's entry, one step a token. Confidence is the greatest probability of the draft, before any temperature.
    """

    name = "mtp"
    taps = (AFTER_FINAL_NORM,)

    def __init__(self, block: PredictionBlock, sequence: int, choose: Choose, p_min: float = 0.0) -> None:
        self._block = block
        self._sequence = sequence
        self._choose = choose
        self._p_min = p_min
        self._observed = 0
        self._position = 0  # of the last entry made from the target's hidden states
        self._hidden: Hidden | None = None  # what that entry gave; never changed once made

    def observe(self, tokens: Sequence[int]) -> None:
        """Counts them: there is something to go on from once the anchor's own entry is there."""
        self._observed += len(tokens)

    def absorb(self, first: int, tokens: Sequence[int], hidden: Mapping[int, Hidden]) -> None:
        if first and not self._position:
            self._resume(first, tokens[0])
        elif first > self._position:
            raise ValueError(
                f"prediction block: expected positions from {self._position} on, found {first}: some were never shown"
            )
        self._hidden = self._block.absorb(self._sequence, first + 1, tokens[1:], hidden[AFTER_FINAL_NORM])
        self._position = first + len(tokens) - 1

    def _resume(self, position: int, token: int) -> None:
        """The entry of the first token behind a prefix that an earlier request evaluated."""
        before = self._block.resume(self._sequence, position)
        if before is None:
            raise ValueError(
                f"prediction block: expected entries for the {position} positions reused, found none"
            )
        self._block.absorb(self._sequence, position, [token], before)

    def propose(self, limit: int) -> Proposal:
        if limit <= 0 or self._hidden is None or self._position != self._observed - 1:
            return NOTHING  # part of the prompt is still to come, in the pass that this proposal would be for
        tokens: list[int] = []
        confidences: list[float] = []
        position = self._position
        prediction = self._block.first(self._hidden)
        while True:
            confidence = _greatest_probability(prediction.logits)
            if confidence < self._p_min:
                break
            position += 1
            tokens.append(self._choose(self._block.scattered(prediction.logits), position))
            confidences.append(confidence)
            if len(tokens) == limit:
                break
            prediction = self._block.step(self._sequence, position, tokens[-1], prediction.hidden)
        return Proposal(tokens, confidences)

    def checkpoint(self) -> tuple[int, int, Hidden | None]:
        return self._observed, self._position, self._hidden

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"drafter checkpoint: expected one this drafter made, found {checkpoint!r}")
        self._observed, self._position, self._hidden = checkpoint


def _greatest_probability(logits: Hidden) -> float:
    logprob, _ = _native.log_probabilities(logits, int(logits.argmax()), 0)
    return min(1.0, math.exp(logprob))
