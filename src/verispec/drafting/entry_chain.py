"""Drafting token by token from entries that follow the committed text: what ``mtp`` and ``eagle3`` have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.contract import CONTEXT_LIMIT, NOTHING, Drafter, Proposal
from verispec.drafting.late_states import LateStates, Waiting
from verispec.drafting.sources import Choose

Hidden = npt.NDArray[np.float32]
Mark = tuple[int, int, Waiting, Hidden | None, dict[str, int]]


class EntryChainDrafter(Drafter):
    """Entries are written for every committed token, the prompt's included, from the hidden states of the pass that
    evaluated it, when a proposal is asked for: those that an earlier one had written from guesses are overwritten. It
    then goes on from the anchor's entry, one step a token. Confidence is the greatest probability of the draft, before
    any temperature.
    """

    def __init__(self, block: PredictionBlock, sequence: int, choose: Choose, p_min: float = 0.0) -> None:
        self.declined: dict[str, int] = {}
        self._block = block
        self._sequence = sequence
        self._choose = choose
        self._p_min = p_min
        self._observed = 0
        self._position = 0  # of the last entry that the target's hidden states are known for
        self._states = LateStates(1, self._write)
        self._hidden: Hidden | None = None  # what the last entry written gave; never changed once made
        self._before: Hidden | None = None  # the target's hidden state behind a prefix that was reused

    def observe(self, tokens: Sequence[int]) -> None:
        """Counts them: there is something to go on from once the anchor's own entry is there."""
        self._observed += len(tokens)

    def absorb(self, first: int, tokens: Sequence[int], hidden: Mapping[int, Hidden]) -> None:
        if first and not self._position:
            self._resume(first, tokens[0])
        elif first > self._position:
            raise ValueError(
                f"{self.name}: expected positions from {self._position} on, found {first}: some were never shown"
            )
        self._states.take(first + 1, tokens[1:], joined(self.taps, hidden))
        self._position = first + len(tokens) - 1

    def _write(self, position: int, tokens: Sequence[int], hidden: Hidden) -> None:
        self._hidden = self._block.absorb(self._sequence, position, tokens, hidden)

    def settle(self) -> None:
        self._states.settle()

    def _resume(self, position: int, token: int) -> None:
        """The entry of the first token behind a prefix that an earlier request evaluated."""
        if self._before is None:  # asked once: a round that fails may have written entries behind the prefix
            self._before = self._block.resume(self._sequence, position)
        if self._before is None:
            raise ValueError(f"{self.name}: expected entries for the {position} positions reused, found none")
        self._block.absorb(self._sequence, position, [token], self._before)

    def propose(self, limit: int) -> Proposal:
        if limit <= 0 or not self._position or self._position != self._observed - 1:
            return NOTHING  # part of the prompt is still to come, in the pass that this proposal would be for
        position, positions = self._position, self._block.positions
        if position >= positions:
            self.declined[CONTEXT_LIMIT] = self.declined.get(CONTEXT_LIMIT, 0) + 1
            return NOTHING
        self.settle()
        assert self._hidden is not None
        tokens: list[int] = []
        confidences: list[float] = []
        prediction = self._block.first(self._hidden)
        while True:
            confidence = greatest_probability(prediction.logits)
            if confidence < self._p_min:
                break
            position += 1
            tokens.append(self._choose(self._block.scattered(prediction.logits), position))
            confidences.append(confidence)
            if len(tokens) == limit or position >= positions:
                break
            prediction = self._block.step(self._sequence, position, tokens[-1], prediction.hidden)
        return Proposal(tokens, confidences)

    def checkpoint(self) -> Mark:
        return self._observed, self._position, self._states.checkpoint(), self._hidden, dict(self.declined)

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"drafter checkpoint: expected one this drafter made, found {checkpoint!r}")
        self._observed, self._position, waiting, self._hidden, declined = checkpoint
        self._states.restore(waiting)
        self.declined = dict(declined)


def joined(taps: Sequence[int], hidden: Mapping[int, Hidden]) -> Hidden:
    """The hidden states of ``taps`` side by side, in that order: ``[rows, columns]`` float32."""
    if len(taps) == 1:
        return hidden[taps[0]]
    return np.concatenate([hidden[tap] for tap in taps], axis=1)


def greatest_probability(logits: Hidden) -> float:
    """The softmax's share of the greatest of ``logits``."""
    logprob, _ = _native.log_probabilities(logits, int(logits.argmax()), 0)
    return min(1.0, math.exp(logprob))
