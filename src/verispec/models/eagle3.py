"""The EAGLE-3 head: one decoder layer over a token's embedding and the target's hidden states, fused.

From the hidden states of position i (the inputs of three of the target's layers) and the token at i + 1 it computes the
token at i + 2; further on its own hidden state, before the norm, stands in for the target's. As published in "EAGLE-3"
(Li et al.) and by its implementations SafeAILab/EAGLE, vLLM and ``speculators``, whose variants differ in the residual
and in which norms there are.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from verispec.models.attention import AttentionMixer, attention_mixer
from verispec.models.draft_hyperparameters import DraftHyperparameters
from verispec.models.draft_tensors import FUSION, FUSION_NORM
from verispec.models.feed_forward import DenseFeedForward, dense_feed_forward
from verispec.models.rope import rope_spec
from verispec.models.tensors import OUTPUT_NORM
from verispec.ops.contract import Operations, Tensor

FIRST_POSITION = 1
"""There are no hidden states before position 0, so the head's cache begins at position 1."""
FED_BACK = 0
"""The tap of what the next step reads in the stead of fused hidden states."""


@dataclass(frozen=True)
class Eagle3:
    """The graph. A row is the token at position p with the hidden states of position p - 1, so entry p of the head's
    cache is a function of the tokens 0 .. p, as the target's is."""

    features: int
    hidden_size: int
    epsilon: float
    embedding: str
    head: str
    fusion_norm: str | None
    norm_before_residual: bool
    norm_output: bool
    mixer: AttentionMixer
    feed_forward: DenseFeedForward

    def fill(self, ops: Operations[Tensor], outputs: int) -> None:
        """Entries of committed tokens, from the target's hidden states; of the output rows keeps what is fed back."""
        x = ops.hidden_input(self.features)
        if self.fusion_norm is not None:
            x = ops.rms_norm(x, self.fusion_norm, self.epsilon)
        (fused,) = ops.linear(x, (FUSION,))
        fed_back = self._entry(ops, fused, outputs)
        if fed_back is not None:
            ops.tap(fed_back, FED_BACK)

    def step(self, ops: Operations[Tensor], outputs: int) -> None:
        """Entries of proposed tokens, from what was fed back, and the head's word on them."""
        fed_back = self._entry(ops, ops.hidden_input(self.hidden_size), outputs)
        if fed_back is not None:
            ops.tap(fed_back, FED_BACK)
            self._score(ops, fed_back)

    def read(self, ops: Operations[Tensor]) -> None:
        """The head alone, over what ``fill`` kept."""
        self._score(ops, ops.select_outputs(ops.hidden_input(self.hidden_size)))

    def _entry(self, ops: Operations[Tensor], fused: Tensor, outputs: int) -> Tensor | None:
        """What the output rows feed back; every row's keys and values go into the cache."""
        embedded = ops.rms_norm(ops.embedding(self.embedding, 1.0), "blk.0.attn_norm.weight", self.epsilon)
        normed = ops.rms_norm(fused, "blk.0.attn_norm_2.weight", self.epsilon)
        residual = normed if self.norm_before_residual else fused
        mixed = self.mixer.mix(ops, ops.concat((embedded, normed)))
        if not outputs:
            return None
        x = ops.add(self.mixer.project(ops, ops.select_outputs(mixed)), ops.select_outputs(residual))
        x = ops.add(self.feed_forward.feed(ops, ops.rms_norm(x, "blk.0.ffn_norm.weight", self.epsilon)), x)
        return ops.rms_norm(x, OUTPUT_NORM, self.epsilon) if self.norm_output else x

    def _score(self, ops: Operations[Tensor], fed_back: Tensor) -> None:
        x = fed_back if self.norm_output else ops.rms_norm(fed_back, OUTPUT_NORM, self.epsilon)
        ops.output_head(x, self.head)


def build_eagle3(
    draft: DraftHyperparameters,
    tensors: Set[str],
    embedding: str,
    head: str,
    rope_factors: Sequence[float] = (),
) -> Eagle3:
    """The graph of ``draft``, whose file holds ``tensors``; ``embedding`` and ``head`` name its matrices or the
    target's."""
    decoder = draft.decoder
    rope = rope_spec(decoder.rope, rope_factors)
    return Eagle3(
        features=draft.features,
        hidden_size=decoder.hidden_size,
        epsilon=decoder.norm_epsilon,
        embedding=embedding,
        head=head,
        fusion_norm=FUSION_NORM if FUSION_NORM in tensors else None,
        norm_before_residual=draft.norm_before_residual,
        norm_output=draft.norm_output,
        mixer=attention_mixer(decoder, 0, rope, tensors, FIRST_POSITION),
        feed_forward=dense_feed_forward(decoder, 0, tensors),
    )
