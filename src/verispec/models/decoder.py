"""The decoder graph: embedding, layers of mixer and feed-forward around a residual stream, norm, output head.

Written once against the operation contract; Llama, Qwen 2, Qwen 3 and Gemma 3 differ only in the parts they
are made of. A mixer is anything that gives each row something computed from its predecessors, a feed-forward
anything that works row by row: other kinds join by satisfying the two protocols below.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from verispec.models.attention import attention_mixer
from verispec.models.feed_forward import dense_feed_forward
from verispec.models.hyperparameters import Hyperparameters
from verispec.models.rope import rope_spec
from verispec.models.tensors import EMBEDDING, OUTPUT, OUTPUT_NORM, layer_tensor
from verispec.ops.contract import AFTER_FINAL_NORM, Operations, Tensor


class Mixer(Protocol):
    """Mixes rows along a sequence, keeping whatever state that takes in the implementation's caches."""

    def mix(self, ops: Operations[Tensor], x: Tensor) -> Tensor:
        """Everything that involves other rows: every row of the pass must come through here."""

    def project(self, ops: Operations[Tensor], mixed: Tensor) -> Tensor:
        """The rest, row by row: ``[rows, hidden_size]``."""


class FeedForward(Protocol):
    """Works on each row alone."""

    def feed(self, ops: Operations[Tensor], x: Tensor) -> Tensor:
        """``[rows, hidden_size]`` to the same."""


@dataclass(frozen=True)
class Layer:
    """One layer and the names of its norms; the ``after`` norms exist in Gemma 3."""

    mixer_norm: str
    mixer: Mixer
    after_mixer_norm: str | None
    feed_norm: str
    feed_forward: FeedForward
    after_feed_norm: str | None


@dataclass(frozen=True)
class Decoder:
    """A whole model's graph. Holds names and numbers only, so it can be run against any implementation."""

    embedding_scale: float
    epsilon: float
    layers: tuple[Layer, ...]
    head: str
    softcap: float

    @property
    def taps(self) -> tuple[int, ...]:
        """Every hidden state that ``run`` can keep."""
        return (AFTER_FINAL_NORM, *range(len(self.layers) + 1))

    def run(self, ops: Operations[Tensor], outputs: int, taps: Set[int] = frozenset()) -> None:
        """Evaluates the pass of ``ops``, of which ``outputs`` rows want an output, keeping the hidden states
        ``taps``.

        Rows without an output are dropped as soon as nothing needs them: after the last layer's mixing.
        """
        last = len(self.layers)
        whole = bool(taps & {last, AFTER_FINAL_NORM})
        x = ops.embedding(EMBEDDING, self.embedding_scale)
        for index, layer in enumerate(self.layers):
            if index in taps:
                ops.tap(x, index)
            mixed = layer.mixer.mix(ops, self._norm(ops, x, layer.mixer_norm))
            if index == last - 1 and not whole:
                if not outputs:
                    return
                mixed, x = ops.select_outputs(mixed), ops.select_outputs(x)
            x = self._finish(ops, layer, mixed, x)
        if last in taps:
            ops.tap(x, last)
        x = self._norm(ops, x, OUTPUT_NORM)
        if AFTER_FINAL_NORM in taps:
            ops.tap(x, AFTER_FINAL_NORM)
        if outputs:
            ops.output_head(ops.select_outputs(x) if whole else x, self.head, self.softcap)

    def _finish(self, ops: Operations[Tensor], layer: Layer, mixed: Tensor, residual: Tensor) -> Tensor:
        """The part of a layer that works on each row alone."""
        mixed = layer.mixer.project(ops, mixed)
        if layer.after_mixer_norm is not None:
            mixed = self._norm(ops, mixed, layer.after_mixer_norm)
        x = ops.add(mixed, residual)
        fed = layer.feed_forward.feed(ops, self._norm(ops, x, layer.feed_norm))
        if layer.after_feed_norm is not None:
            fed = self._norm(ops, fed, layer.after_feed_norm)
        return ops.add(fed, x)

    def _norm(self, ops: Operations[Tensor], x: Tensor, weight: str) -> Tensor:
        return ops.rms_norm(x, weight, self.epsilon)


def build_decoder(model: Hyperparameters, tensors: Set[str], rope_factors: Sequence[float] = ()) -> Decoder:
    """The graph of ``model``. ``tensors`` are the file's tensor names, ``rope_factors`` the values of
    ``rope_freqs``.

    The factors belong to layers that attend to everything; a sliding layer's rotation has none.
    """
    full, sliding = rope_spec(model.rope, rope_factors), rope_spec(model.sliding_rope)

    def layer(index: int) -> Layer:
        post = model.family.post_norms
        rope = sliding if model.windows[index] else full
        return Layer(
            mixer_norm=layer_tensor(index, "attn_norm.weight"),
            mixer=attention_mixer(model, index, rope, tensors),
            after_mixer_norm=layer_tensor(index, "post_attention_norm.weight") if post else None,
            feed_norm=layer_tensor(index, "ffn_norm.weight"),
            feed_forward=dense_feed_forward(model, index, tensors),
            after_feed_norm=layer_tensor(index, "post_ffw_norm.weight") if post else None,
        )

    return Decoder(
        embedding_scale=model.embedding_scale,
        epsilon=model.norm_epsilon,
        layers=tuple(layer(index) for index in range(model.layers)),
        head=OUTPUT if OUTPUT in tensors else EMBEDDING,
        softcap=model.final_softcap,
    )
