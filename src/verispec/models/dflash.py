"""The DFlash backbone: a whole block of tokens from one pass over masks, conditioned on the target's hidden states.

As published by z-lab/dflash ("DFlash: Block Diffusion for Flash Speculative Decoding"): layers of Qwen3's form whose
queries come from the block alone, and whose keys and values come from the block and from the context, the target's
hidden states fused. The block is not causal: all of it is seen from everywhere in it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from verispec.models.attention import AttentionMixer, attention_mixer
from verispec.models.draft_hyperparameters import DraftHyperparameters
from verispec.models.draft_tensors import CONTEXT_NORM, FUSION
from verispec.models.feed_forward import dense_feed_forward
from verispec.models.layer import Layer
from verispec.models.rope import rope_spec
from verispec.models.tensors import OUTPUT_NORM, layer_tensor
from verispec.ops.contract import Operations, Tensor

BLOCK_HIDDEN = 0
"""The tap of the block's hidden states after the norm."""


@dataclass(frozen=True)
class DFlash:
    """The graph. Position p of its cache holds keys and values made from the target's hidden states at p; those of a
    block lie behind them, and are written over when the target's hidden states there are known."""

    features: int
    epsilon: float
    embedding: str
    head: str
    mixers: tuple[AttentionMixer, ...]
    layers: tuple[Layer, ...]

    def context(self, ops: Operations[Tensor]) -> None:
        """Keys and values of committed positions, from the target's hidden states, one position a row."""
        (fused,) = ops.linear(ops.hidden_input(self.features), (FUSION,))
        x = ops.rms_norm(fused, CONTEXT_NORM, self.epsilon)
        for mixer in self.mixers:
            mixer.remember(ops, x)

    def block(self, ops: Operations[Tensor], keep_hidden: bool = False) -> None:
        """The block, anchor and masks one a row, and logits of its output rows; ``keep_hidden``: their states too."""
        x = ops.embedding(self.embedding, 1.0)
        for layer in self.layers:
            x = layer.finish(ops, layer.mix(ops, x), x)
        x = ops.rms_norm(ops.select_outputs(x), OUTPUT_NORM, self.epsilon)
        if keep_hidden:
            ops.tap(x, BLOCK_HIDDEN)
        ops.output_head(x, self.head)


def build_dflash(
    draft: DraftHyperparameters,
    tensors: Set[str],
    embedding: str,
    head: str,
    rope_factors: Sequence[float] = (),
) -> DFlash:
    """The graph of ``draft``, whose file holds ``tensors``; ``embedding`` and ``head`` name its matrices or the
    target's."""
    decoder = draft.decoder
    rope = rope_spec(decoder.rope, rope_factors)
    causal = [attention_mixer(decoder, index, rope, tensors) for index in range(decoder.layers)]
    mixers = [replace(mixer, spec=replace(mixer.spec, block=True)) for mixer in causal]
    return DFlash(
        features=draft.features,
        epsilon=decoder.norm_epsilon,
        embedding=embedding,
        head=head,
        mixers=tuple(mixers),
        layers=tuple(
            Layer(
                epsilon=decoder.norm_epsilon,
                mixer_norm=layer_tensor(index, "attn_norm.weight"),
                mixer=mixer,
                after_mixer_norm=None,
                feed_norm=layer_tensor(index, "ffn_norm.weight"),
                feed_forward=dense_feed_forward(decoder, index, tensors),
                after_feed_norm=None,
            )
            for index, mixer in enumerate(mixers)
        ),
    )
