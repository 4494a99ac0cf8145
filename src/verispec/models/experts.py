"""The feed-forward with experts: each row goes to a few of many, and to a shared one behind a gate."""

from __future__ import annotations

from dataclasses import dataclass

from verispec.models.hybrid import Experts
from verispec.models.tensors import layer_tensor
from verispec.ops.contract import Operations, Tensor


@dataclass(frozen=True)
class ExpertsFeedForward:
    """``sum of share * expert(x) + sigmoid(gate(x)) * shared(x)`` of one layer, every expert a SwiGLU."""

    used: int
    normalise: bool
    router: str
    gates: str
    ups: str
    downs: str
    shared_switch: str
    shared_gate: str
    shared_up: str
    shared_down: str

    def feed(self, ops: Operations[Tensor], x: Tensor) -> Tensor:
        """What the layer adds to ``[rows, hidden_size]`` of normed input."""
        together = (self.router, self.shared_switch, self.shared_gate, self.shared_up)
        logits, switch, gate, up = ops.linear(x, together)
        (shared,) = ops.linear(ops.swiglu(gate, up), (self.shared_down,))
        return ops.add(self._routed(ops, x, logits), ops.sigmoid_gate(shared, switch))

    def _routed(self, ops: Operations[Tensor], x: Tensor, logits: Tensor) -> Tensor:
        """The chosen experts' results, added by share."""
        ids, shares = ops.route(logits, self.used, self.normalise)
        gate = ops.expert_linear(x, ids, self.gates)
        up = ops.expert_linear(x, ids, self.ups)
        return ops.expert_sum(ops.expert_linear(ops.swiglu(gate, up), ids, self.downs), shares)


def experts_feed_forward(experts: Experts, layer: int) -> ExpertsFeedForward:
    """Layer ``layer``'s experts."""

    def name(part: str) -> str:
        return layer_tensor(layer, f"{part}.weight")

    return ExpertsFeedForward(
        used=experts.used,
        normalise=experts.normalise,
        router=name("ffn_gate_inp"),
        gates=name("ffn_gate_exps"),
        ups=name("ffn_up_exps"),
        downs=name("ffn_down_exps"),
        shared_switch=name("ffn_gate_inp_shexp"),
        shared_gate=name("ffn_gate_shexp"),
        shared_up=name("ffn_up_shexp"),
        shared_down=name("ffn_down_shexp"),
    )
