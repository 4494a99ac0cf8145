"""The attention mixer: projections, norms of queries and keys, rotation, causal attention, gate, output
projection."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from verispec.models.hyperparameters import Hyperparameters
from verispec.models.tensors import layer_tensor
from verispec.ops.contract import AttentionSpec, Operations, RopeSpec, Tensor


def optional_bias(tensors: Set[str], layer: int, part: str) -> str | None:
    """The bias of ``part`` when the file has one."""
    name = layer_tensor(layer, f"{part}.bias")
    return name if name in tensors else None


@dataclass(frozen=True)
class AttentionMixer:
    """Grouped-query attention of one layer. Weights are named, never held."""

    gated: bool
    """The query projection gives each head its query, then a gate of the same width for its result."""
    spec: AttentionSpec
    rope: RopeSpec
    epsilon: float
    projections: tuple[str, str, str]
    projection_biases: tuple[str | None, str | None, str | None]
    query_norm: str | None
    key_norm: str | None
    output: str
    output_bias: str | None

    def mix(self, ops: Operations[Tensor], x: Tensor) -> Tensor:
        """What the layer adds to ``[rows, hidden_size]`` of normed input, before its output projection."""
        spec = self.spec
        q, k, v = ops.linear(x, self.projections, self.projection_biases)
        gate = None
        if self.gated:
            q, gate = ops.split(q, (spec.head_dim, spec.head_dim), groups=spec.heads)
        if self.query_norm is not None:
            q = ops.rms_norm(q, self.query_norm, self.epsilon, groups=spec.heads)
        if self.key_norm is not None:
            k = ops.rms_norm(k, self.key_norm, self.epsilon, groups=spec.kv_heads)
        q = ops.rope(q, spec.heads, self.rope)
        k = ops.rope(k, spec.kv_heads, self.rope)
        mixed = ops.attention(q, k, v, spec)
        return mixed if gate is None else ops.sigmoid_gate(mixed, gate)

    def remember(self, ops: Operations[Tensor], x: Tensor) -> None:
        """Stores the keys and values of ``[rows, hidden_size]`` for later passes to attend to, and attends nothing."""
        k, v = ops.linear(x, self.projections[1:], self.projection_biases[1:])
        if self.key_norm is not None:
            k = ops.rms_norm(k, self.key_norm, self.epsilon, groups=self.spec.kv_heads)
        ops.store(ops.rope(k, self.spec.kv_heads, self.rope), v, self.spec)

    def project(self, ops: Operations[Tensor], mixed: Tensor) -> Tensor:
        """The output projection, row by row."""
        (projected,) = ops.linear(mixed, (self.output,), (self.output_bias,))
        return projected


def attention_mixer(
    model: Hyperparameters, layer: int, rope: RopeSpec, tensors: Set[str], first: int = 0
) -> AttentionMixer:
    """Layer ``layer``'s attention, with the biases that ``tensors`` (the file's names) hold.

    Its cache begins at position ``first``.
    """
    parts = ("attn_q", "attn_k", "attn_v")
    q, k, v = (layer_tensor(layer, f"{part}.weight") for part in parts)
    q_bias, k_bias, v_bias = (optional_bias(tensors, layer, part) for part in parts)
    normed = model.family.qk_norm
    return AttentionMixer(
        gated=model.family.hybrid,
        spec=AttentionSpec(
            layer=layer,
            heads=model.heads,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            scale=model.query_scale,
            window=model.windows[layer],
            first=first,
        ),
        rope=rope,
        epsilon=model.norm_epsilon,
        projections=(q, k, v),
        projection_biases=(q_bias, k_bias, v_bias),
        query_norm=layer_tensor(layer, "attn_q_norm.weight") if normed else None,
        key_norm=layer_tensor(layer, "attn_k_norm.weight") if normed else None,
        output=layer_tensor(layer, "attn_output.weight"),
        output_bias=optional_bias(tensors, layer, "attn_output"),
    )
