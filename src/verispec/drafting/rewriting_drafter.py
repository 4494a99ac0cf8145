"""Strategy ``draft-model`` with a model of other tokens: it writes text, which the target's tokeniser reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from verispec.drafting.contract import CONTEXT_LIMIT, NOTHING, Drafter, Proposal
from verispec.drafting.draft_model import CHUNK
from verispec.drafting.draft_text import DraftText
from verispec.drafting.entry_chain import greatest_probability
from verispec.drafting.text_rewriter import TextRewriter

UNSETTLED = 4
"""Tokens at the end of a text that more text might encode otherwise."""
MOST_EACH = 4
"""Draft tokens written for one of the target's, at most, and as many more."""


class RewritingDrafter(Drafter):
    """The model continues the text greedily: the target's noise is that of its own tokens and says nothing of these.

    A token's confidence is the product of those of the draft tokens that begin in it.
    """

    name = "draft-model"
    follows_text = True

    def __init__(self, text: DraftText, rewriter: TextRewriter, p_min: float = 0.0) -> None:
        self.declined: dict[str, int] = {}
        self._text = text
        self._rewriter = rewriter
        self._p_min = p_min
        self._tokens: list[int] = []
        self._prompt: list[int] = []  # as far as it was read in chunks

    def observe(self, tokens: Sequence[int]) -> None:
        self._tokens += tokens

    def absorb(
        self, first: int, tokens: Sequence[int], hidden: Mapping[int, npt.NDArray[np.float32]]
    ) -> None:
        """Reads a long prompt chunk by chunk, so that the first proposal need not."""
        if self._tokens or first != len(self._prompt) or len(tokens) <= CHUNK:
            return
        self._prompt += tokens[:-1]
        ids = (self._rewriter.to_draft(self._prompt) or [])[:-UNSETTLED]
        if 0 < len(ids) <= self._text.model.capabilities.context:
            self._text.read(ids)

    def propose(self, limit: int) -> Proposal:
        ids = self._rewriter.to_draft(self._tokens) if limit > 0 else None
        if not ids:
            return NOTHING
        context = self._text.model.capabilities.context
        if len(ids) > context:
            self.declined[CONTEXT_LIMIT] = self.declined.get(CONTEXT_LIMIT, 0) + 1
            return NOTHING
        return self._rewritten(*self._written(ids, limit, context), limit)

    def _written(self, ids: list[int], limit: int, context: int) -> tuple[list[bytes], list[float]]:
        """What the model writes behind ``ids``: each token's bytes and confidence."""
        pieces: list[bytes] = []
        confidences: list[float] = []
        text = list(ids)
        while len(pieces) < MOST_EACH * (limit + 1) and len(text) <= context:
            logits = self._text.read(text)
            confidence, token = greatest_probability(logits), int(logits.argmax())
            piece = self._rewriter.drafted_bytes(token)
            if piece is None or confidence < self._p_min:
                break
            pieces.append(piece)
            confidences.append(confidence)
            text.append(token)
            if len(self._rewriter.to_target(self._tokens, b"".join(pieces))) >= limit:
                break
        return pieces, confidences

    def _rewritten(self, pieces: Sequence[bytes], confidences: Sequence[float], limit: int) -> Proposal:
        tokens = self._rewriter.to_target(self._tokens, b"".join(pieces))[:limit]
        begins = np.cumsum([0, *map(len, pieces)])[:-1]
        certain: list[float] = []
        end = 0
        for token in tokens:
            start, end = end, end + len(self._rewriter.target_bytes(token))
            within = (begins >= start) & (begins < end)
            certain.append(float(np.prod(np.asarray(confidences)[within])))
        kept = next((i for i, one in enumerate(certain) if one < self._p_min), len(certain))
        return Proposal(tokens[:kept], certain[:kept])

    def checkpoint(self) -> tuple[int, dict[str, int]]:
        return len(self._tokens), dict(self.declined)

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"drafter checkpoint: expected one this drafter made, found {checkpoint!r}")
        length, declined = checkpoint
        del self._tokens[length:]
        self.declined = dict(declined)
