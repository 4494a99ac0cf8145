"""Strategy ``draft-model``: a smaller model with the target's tokens writes ahead of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from verispec.drafting.contract import CONTEXT_LIMIT, NOTHING, Drafter, Proposal
from verispec.drafting.draft_text import DraftText
from verispec.drafting.entry_chain import greatest_probability
from verispec.drafting.sources import Choose

CHUNK = 32
"""Tokens of a prompt that are read as the target reads it; fewer wait for the pass that drafts."""


class DraftModelDrafter(Drafter):
    """The model continues the text token by token. Confidence is the greatest probability, before any temperature."""

    name = "draft-model"
    follows_text = True

    def __init__(self, text: DraftText, choose: Choose, p_min: float = 0.0) -> None:
        self.declined: dict[str, int] = {}
        self._text = text
        self._choose = choose
        self._p_min = p_min
        self._tokens: list[int] = []
        self._prompt: list[int] = []  # as far as it was read in chunks

    def observe(self, tokens: Sequence[int]) -> None:
        self._tokens += tokens

    def absorb(
        self, first: int, tokens: Sequence[int], hidden: Mapping[int, npt.NDArray[np.float32]]
    ) -> None:
        """Reads a long prompt chunk by chunk, so that the first proposal need not."""
        context = self._text.model.capabilities.context
        prompt = self._prompt
        if (
            not self._tokens
            and len(tokens) > CHUNK
            and first == len(prompt)
            and first + len(tokens) - 1 <= context
        ):
            prompt += tokens[:-1]
            self._text.read(prompt)

    def propose(self, limit: int) -> Proposal:
        context = self._text.model.capabilities.context
        if limit <= 0 or not self._tokens:
            return NOTHING
        if len(self._tokens) > context:
            self.declined[CONTEXT_LIMIT] = self.declined.get(CONTEXT_LIMIT, 0) + 1
            return NOTHING
        text = list(self._tokens)
        confidences: list[float] = []
        while len(confidences) < limit and len(text) <= context:
            logits = self._text.read(text)
            confidence = greatest_probability(logits)
            if confidence < self._p_min:
                break
            text.append(self._choose(logits, len(text)))
            confidences.append(confidence)
        return Proposal(text[len(self._tokens) :], confidences)

    def checkpoint(self) -> tuple[int, dict[str, int]]:
        return len(self._tokens), dict(self.declined)

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"drafter checkpoint: expected one this drafter made, found {checkpoint!r}")
        length, declined = checkpoint
        del self._tokens[length:]
        self.declined = dict(declined)
