"""Timing what drafts on this machine, for the adaptive draft width."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from verispec.backends.contract import BackendAdapter, chain
from verispec.backends.draft_block import DraftBlock, FollowingBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.draft_text import DraftText

_TURNS = 5

Seconds = tuple[float, float]
"""A token, and a proposal however long."""


class DraftTiming:
    """Times drafters as they are used: behind a pass of the target, whose weights have taken the place of theirs in the
    processor's caches: a head of 6 MB took 0.24 ms a token then, and 0.18 when it was asked again and again."""

    def __init__(self, backend: BackendAdapter, sequence: int) -> None:
        """``sequence``: one of the target's, which is left as it is."""
        self._backend = backend
        self._row = chain(sequence, backend.length(sequence), [0])

    def text(self, text: DraftText) -> Seconds:
        """Of a draft model, measured on a sequence of its own that is given back."""
        measured = DraftText(text.model, text.sequence)
        turns = min(_TURNS + 1, text.model.capabilities.context)
        seconds = self._least(lambda turn: measured.read([0] * (turn + 1)), turns)
        text.held.clear()
        return seconds, 0.0

    def prediction(self, block: PredictionBlock, sequence: int) -> Seconds:
        """Of a block that predicts token by token; what ``sequence`` of its cache holds is lost. A proposal has a step
        less than tokens, and states to take in before the first, which takes about as long."""
        hidden = np.zeros((1, block.columns), np.float32)
        fed_back = block.absorb(sequence, 1, [0], hidden)
        turns = min(_TURNS + 1, block.positions - 2)
        return self._least(
            lambda turn: block.step(sequence, 2 + turn, 0, fed_back).logits.argmax(), turns
        ), 0.0

    def block(self, head: DraftBlock, sequence: int) -> Seconds:
        """Of a head that drafts a whole block; what ``sequence`` of its cache holds is lost."""
        head.absorb(sequence, 0, np.zeros((1, head.columns), np.float32))
        if head.width + 1 >= head.positions:
            return 0.0, 0.0
        block = self._least(lambda turn: head.predict(sequence, 1, 0), _TURNS + 1)
        if not isinstance(head, FollowingBlock):
            return 0.0, block
        row = head.predict(sequence, 1, 0).hidden[0]
        return self._least(lambda turn: head.follow(0, row), _TURNS + 1), block

    def _least(self, call: Callable[[int], object], turns: int) -> float:
        """Seconds of the fastest call; the first captures a pass, and is never that. 0 where there is none."""
        seconds = []
        for turn in range(turns):
            self._backend.evaluate(self._row, (0,), False)
            started = time.perf_counter()
            call(turn)
            seconds.append(time.perf_counter() - started)
        return min(seconds, default=0.0)
