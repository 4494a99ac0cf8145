"""A text as a draft model has read it: one of its sequences, and what that holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from verispec.backends.contract import BackendAdapter, chain
from verispec.drafting.text_rewriter import TextRewriter

Logits = npt.NDArray[np.float32]


@dataclass
class DraftText:
    """A sequence of the draft model, and the tokens whose keys and values it holds. It outlives a request: the next one
    on the same sequence of the target goes on from what the two have in common."""

    model: BackendAdapter
    sequence: int
    held: list[int] = field(default_factory=list)
    rewriter: TextRewriter | None = None
    """For a model of other tokens than the target's."""

    def read(self, tokens: list[int]) -> Logits:
        """Logits for what follows ``tokens``, ``[vocabulary]`` float32; evaluates what is not held of them."""
        last = len(tokens) - 1
        kept = self._common(tokens[:last])
        most = self.model.capabilities.max_rows
        while True:
            end = min(kept + most, len(tokens))
            outputs = [end - kept - 1] if end == len(tokens) else []
            rows = chain(self.sequence, kept, tokens[kept:end])
            evaluation = self.model.evaluate(rows, outputs, bool(outputs))
            self.model.commit(self.sequence, end)
            self.held += tokens[kept:end]
            kept = end
            if evaluation.logits is not None:
                logits: Logits = evaluation.logits[0]
                return logits

    def _common(self, tokens: list[int]) -> int:
        """Goes back to what is held of ``tokens``, and gives its length."""
        length = min(len(self.held), len(tokens))
        if self.held[:length] != tokens[:length]:
            length = next(i for i, held in enumerate(self.held) if held != tokens[i])
        if not self.model.holds(self.sequence, length):
            length = 0
        del self.held[length:]
        self.model.commit(self.sequence, length)
        return length
