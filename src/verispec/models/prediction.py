"""The prediction block: one more layer after the trunk that guesses a token further (multi-token prediction).

From the hidden state after the final norm at position i and the token at i + 1 it computes the token at i + 2.
As published with DeepSeek-V3 ("Multi-Token Prediction") and carried by Qwen3-Next and Qwen3.5 files.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from verispec.models.hyperparameters import Hyperparameters
from verispec.models.layer import Layer, build_layer
from verispec.models.rope import rope_spec
from verispec.models.tensors import EMBEDDING, OUTPUT, OUTPUT_NORM, layer_tensor
from verispec.ops.contract import AFTER_FINAL_NORM, Operations, Tensor

FIRST_POSITION = 1
"""There is no hidden state before position 0, so the block's cache begins at position 1."""


@dataclass(frozen=True)
class PredictionBlock:
    """The graph of one prediction block.

    A row is the token at position p with the hidden state of position p - 1, so entry p of the block's cache is a
    function of the tokens 0 .. p, as the trunk's is.
    """

    hidden_size: int
    epsilon: float
    embedding: str
    embedding_norm: str
    hidden_norm: str
    join: str
    """From a token's embedding and a hidden state, in that order, to the residual stream."""
    layer: Layer
    final_norm: str
    head: str
    softcap: float

    def run(
        self, ops: Operations[Tensor], outputs: int, taps: Set[int] = frozenset(), head: str | None = None
    ) -> None:
        """Evaluates the pass of ``ops``, of which ``outputs`` rows want a prediction.

        With ``AFTER_FINAL_NORM`` in ``taps`` it keeps the output rows' hidden states, which stand in for the
        trunk's where the block predicts from its own prediction. ``head`` replaces the block's head. Rows without
        an output only fill the cache.
        """
        x = self._hidden(ops, outputs)
        if x is None:
            return
        if AFTER_FINAL_NORM in taps:
            ops.tap(x, AFTER_FINAL_NORM)
        ops.output_head(x, self.head if head is None else head, self.softcap)

    def fill(self, ops: Operations[Tensor], outputs: int) -> None:
        """Evaluates the pass without a head: the output rows' hidden states are kept, and may be read later."""
        x = self._hidden(ops, outputs)
        if x is not None:
            ops.tap(x, AFTER_FINAL_NORM)

    def read(self, ops: Operations[Tensor], head: str | None = None) -> None:
        """The head alone, over hidden states that ``fill`` kept."""
        x = ops.select_outputs(ops.hidden_input(self.hidden_size))
        ops.output_head(x, self.head if head is None else head, self.softcap)

    def _hidden(self, ops: Operations[Tensor], outputs: int) -> Tensor | None:
        """Hidden states of the output rows after the block's norm; every row's keys and values go into the cache."""
        embedded = ops.rms_norm(ops.embedding(self.embedding, 1.0), self.embedding_norm, self.epsilon)
        hidden = ops.rms_norm(ops.hidden_input(self.hidden_size), self.hidden_norm, self.epsilon)
        (x,) = ops.linear(ops.concat((embedded, hidden)), (self.join,))
        mixed = self.layer.mix(ops, x)
        if not outputs:
            return None
        x = self.layer.finish(ops, ops.select_outputs(mixed), ops.select_outputs(x))
        return ops.rms_norm(x, self.final_norm, self.epsilon)


def build_prediction(model: Hyperparameters, tensors: Set[str], index: int = 0) -> PredictionBlock:
    """The graph of the file's prediction block ``index``. ``tensors`` are the file's tensor names.

    Its attention uses the cache layer of its own block, after the trunk's. Without parts of its own it embeds,
    norms and ends as the trunk does.
    """
    if not 0 <= index < model.prediction_layers:
        raise IndexError(f"prediction block {index} of {model.prediction_layers}")
    block = model.layers + index

    def own(part: str, otherwise: str) -> str:
        name = layer_tensor(block, f"nextn.{part}.weight")
        return name if name in tensors else otherwise

    return PredictionBlock(
        hidden_size=model.hidden_size,
        epsilon=model.norm_epsilon,
        embedding=own("embed_tokens", EMBEDDING),
        embedding_norm=layer_tensor(block, "nextn.enorm.weight"),
        hidden_norm=layer_tensor(block, "nextn.hnorm.weight"),
        join=layer_tensor(block, "nextn.eh_proj.weight"),
        layer=build_layer(model, block, rope_spec(model.rope), tensors, FIRST_POSITION),
        final_norm=own("shared_head_norm", OUTPUT_NORM),
        head=own("shared_head_head", OUTPUT if OUTPUT in tensors else EMBEDDING),
        softcap=model.final_softcap,
    )
