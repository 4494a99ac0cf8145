"""One layer: a mixer and a feed-forward around the residual stream, and the norms before and after them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Protocol

from verispec.models.attention import attention_mixer
from verispec.models.delta_net import gated_delta_net_mixer
from verispec.models.experts import experts_feed_forward
from verispec.models.feed_forward import dense_feed_forward
from verispec.models.hyperparameters import Hyperparameters
from verispec.models.tensors import layer_tensor
from verispec.ops.contract import Operations, RopeSpec, Tensor


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

    epsilon: float
    mixer_norm: str
    mixer: Mixer
    after_mixer_norm: str | None
    feed_norm: str
    feed_forward: FeedForward
    after_feed_norm: str | None

    def mix(self, ops: Operations[Tensor], x: Tensor) -> Tensor:
        """The part that involves other rows, of the residual stream ``x``; ``finish`` takes its result."""
        return self.mixer.mix(ops, ops.rms_norm(x, self.mixer_norm, self.epsilon))

    def finish(self, ops: Operations[Tensor], mixed: Tensor, residual: Tensor) -> Tensor:
        """The part that works on each row alone: the residual stream after the layer."""
        mixed = self.mixer.project(ops, mixed)
        if self.after_mixer_norm is not None:
            mixed = ops.rms_norm(mixed, self.after_mixer_norm, self.epsilon)
        x = ops.add(mixed, residual)
        fed = self.feed_forward.feed(ops, ops.rms_norm(x, self.feed_norm, self.epsilon))
        if self.after_feed_norm is not None:
            fed = ops.rms_norm(fed, self.after_feed_norm, self.epsilon)
        return ops.add(fed, x)


def build_layer(
    model: Hyperparameters, index: int, rope: RopeSpec, tensors: Set[str], first: int = 0
) -> Layer:
    """Block ``index`` of the file, whose names are ``tensors``; the cache of its attention begins at ``first``."""
    family = model.family
    mixer: Mixer
    if model.delta_net is not None and model.recurrent[index]:
        mixer = gated_delta_net_mixer(model.delta_net, model.norm_epsilon, index)
    else:
        mixer = attention_mixer(model, index, rope, tensors, first)
    feed_forward: FeedForward
    if model.experts is not None:
        feed_forward = experts_feed_forward(model.experts, index)
    else:
        feed_forward = dense_feed_forward(model, index, tensors)
    return Layer(
        epsilon=model.norm_epsilon,
        mixer_norm=layer_tensor(index, "attn_norm.weight"),
        mixer=mixer,
        after_mixer_norm=layer_tensor(index, "post_attention_norm.weight") if family.post_norms else None,
        feed_norm=layer_tensor(index, family.feed_norm),
        feed_forward=feed_forward,
        after_feed_norm=layer_tensor(index, "post_ffw_norm.weight") if family.post_norms else None,
    )
