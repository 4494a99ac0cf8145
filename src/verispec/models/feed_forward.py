"""The dense gated feed-forward."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from verispec.models.attention import optional_bias
from verispec.models.hyperparameters import Activation, Hyperparameters
from verispec.models.tensors import layer_tensor
from verispec.ops.contract import Operations, Tensor


@dataclass(frozen=True)
class DenseFeedForward:
    """``down(activation(gate(x)) * up(x))`` of one layer."""

    activation: Activation
    gate: str
    up: str
    down: str
    gate_bias: str | None
    up_bias: str | None
    down_bias: str | None

    def feed(self, ops: Operations[Tensor], x: Tensor) -> Tensor:
        """What the layer adds to ``[rows, hidden_size]`` of normed input."""
        gate, up = ops.linear(x, (self.gate, self.up), (self.gate_bias, self.up_bias))
        inner = ops.swiglu(gate, up) if self.activation == "swiglu" else ops.geglu(gate, up)
        (out,) = ops.linear(inner, (self.down,), (self.down_bias,))
        return out


def dense_feed_forward(model: Hyperparameters, layer: int, tensors: Set[str]) -> DenseFeedForward:
    """Layer ``layer``'s feed-forward, with the biases that ``tensors`` (the file's names) hold."""
    return DenseFeedForward(
        activation=model.family.activation,
        gate=layer_tensor(layer, "ffn_gate.weight"),
        up=layer_tensor(layer, "ffn_up.weight"),
        down=layer_tensor(layer, "ffn_down.weight"),
        gate_bias=optional_bias(tensors, layer, "ffn_gate"),
        up_bias=optional_bias(tensors, layer, "ffn_up"),
        down_bias=optional_bias(tensors, layer, "ffn_down"),
    )
