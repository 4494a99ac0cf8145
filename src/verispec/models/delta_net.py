"""The gated delta net: a mixer whose state has one size however long the sequence is.

Projections, a short causal convolution, the gated delta rule and a gated norm, as in "Gated Delta Networks:
Improving Mamba2 with Delta Rule" (Yang, Kautz, Hatamizadeh) and the Qwen3-Next and Qwen3.5 models.
"""

from __future__ import annotations

from dataclasses import dataclass

from verispec.models.hybrid import LENGTH_EPSILON, DeltaNet
from verispec.models.tensors import layer_tensor
from verispec.ops.contract import ConvolutionSpec, DeltaSpec, Operations, Tensor


@dataclass(frozen=True)
class GatedDeltaNetMixer:
    """One layer's gated delta net. Weights are named, never held."""

    convolution: ConvolutionSpec
    delta: DeltaSpec
    epsilon: float
    mixed: str
    """Projects to queries, keys and values."""
    gate: str
    rates: tuple[str, ...]
    """Project to beta and alpha: a matrix each, or one whose outputs alternate by key head."""
    taps: str
    decay: str
    dt_bias: str
    norm: str
    output: str

    def mix(self, ops: Operations[Tensor], x: Tensor) -> Tensor:
        """``[rows, value_heads * value_dim]`` from ``[rows, hidden_size]`` of normed input."""
        qkv, gate, *rates = ops.linear(x, (self.mixed, self.gate, *self.rates))
        beta, alpha = rates if len(rates) == 2 else self._by_key_head(ops, rates[0])
        qkv = ops.convolution(qkv, self.taps, self.convolution)
        recalled = ops.delta_rule(qkv, beta, alpha, self.decay, self.dt_bias, self.delta)
        recalled = ops.rms_norm(recalled, self.norm, self.epsilon, groups=self.delta.value_heads)
        return ops.swiglu(gate, recalled)

    def _by_key_head(self, ops: Operations[Tensor], rates: Tensor) -> tuple[Tensor, ...]:
        """Beta and alpha of ``rates``, where each key head has the betas, then the alphas of its value
        heads."""
        shared = self.delta.value_heads // self.delta.key_heads
        return ops.split(rates, (shared, shared), groups=self.delta.key_heads)

    def project(self, ops: Operations[Tensor], mixed: Tensor) -> Tensor:
        """The output projection, row by row."""
        (projected,) = ops.linear(mixed, (self.output,))
        return projected


def gated_delta_net_mixer(numbers: DeltaNet, epsilon: float, layer: int) -> GatedDeltaNetMixer:
    """Layer ``layer``'s gated delta net."""

    def name(part: str) -> str:
        return layer_tensor(layer, part)

    rates = ("ssm_ba.weight",) if numbers.grouped else ("ssm_beta.weight", "ssm_alpha.weight")
    return GatedDeltaNetMixer(
        convolution=ConvolutionSpec(layer, numbers.channels, numbers.kernel),
        delta=DeltaSpec(
            layer=layer,
            key_heads=numbers.key_heads,
            value_heads=numbers.value_heads,
            key_dim=numbers.head_dim,
            value_dim=numbers.head_dim,
            epsilon=LENGTH_EPSILON,
            grouped=numbers.grouped,
        ),
        epsilon=epsilon,
        mixed=name("attn_qkv.weight"),
        gate=name("attn_gate.weight"),
        rates=tuple(name(rate) for rate in rates),
        taps=name("ssm_conv1d.weight"),
        decay=name("ssm_a"),
        dt_bias=name("ssm_dt.bias"),
        norm=name("ssm_norm.weight"),
        output=name("ssm_out.weight"),
    )
