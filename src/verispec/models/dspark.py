"""DSpark's heads over a DFlash backbone: a Markov head that makes a block's tokens follow one another, and a confidence
head that says how far they are worth checking.

As published with DeepSpec: the logits of row k are the backbone's plus ``W2 W1[previous token]``, of low rank; the
confidence of row k is ``sigmoid(w . [hidden state of row k, W1[previous token]] + b)``. In the gated variant the
embedding of the previous token goes through ``sigmoid(Wg [hidden, embedding] + bg)`` first.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from verispec.artifacts.draft_file import CONFIDENCE, MARKOV
from verispec.models.draft_hyperparameters import DraftHyperparameters
from verispec.models.draft_tensors import CONFIDENCE_BIAS, MARKOV_GATE
from verispec.ops.contract import Operations, Tensor

BIAS, CONFIDENCE_LOGIT = 0, 1
"""The taps of a step: what is added to the backbone's logits, and the confidence before its sigmoid."""


@dataclass(frozen=True)
class DSparkHeads:
    """The graph of one step. A row is the token before, with the backbone's hidden state of the row that follows it."""

    hidden_size: int
    gated: bool
    confidence_bias: str | None

    def step(self, ops: Operations[Tensor]) -> None:
        """Keeps the bias ``[R, outputs]`` and the confidence's logit ``[R, 1]``."""
        hidden = ops.hidden_input(self.hidden_size)
        previous = ops.embedding(MARKOV[0], 1.0)
        joined = ops.concat((hidden, previous))
        (confidence,) = ops.linear(joined, (CONFIDENCE,), (self.confidence_bias,))
        ops.tap(confidence, CONFIDENCE_LOGIT)
        if self.gated:
            (gate,) = ops.linear(joined, MARKOV_GATE[:1], MARKOV_GATE[1:])
            previous = ops.sigmoid_gate(previous, gate)
        (bias,) = ops.linear(previous, MARKOV[1:])
        ops.tap(bias, BIAS)


def build_dspark_heads(draft: DraftHyperparameters, tensors: Set[str]) -> DSparkHeads:
    """The heads of ``draft``, whose file holds ``tensors``."""
    return DSparkHeads(
        hidden_size=draft.decoder.hidden_size,
        gated=MARKOV_GATE[0] in tensors,
        confidence_bias=CONFIDENCE_BIAS if CONFIDENCE_BIAS in tensors else None,
    )
