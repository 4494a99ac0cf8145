"""The tensors of one block of a file, by kind of mixer and feed-forward."""

from __future__ import annotations

from collections.abc import Iterator

from verispec.models.hybrid import DeltaNet, Experts
from verispec.models.hyperparameters import Hyperparameters

Shape = tuple[int, ...]
Part = tuple[str, Shape, bool]
"""Name within the block, shape, and whether every file has it."""


def layer_parts(model: Hyperparameters, block: int) -> Iterator[Part]:
    """A whole layer: mixer and feed-forward with their norms."""
    hidden, family = model.hidden_size, model.family
    yield "attn_norm.weight", (hidden,), True
    if model.delta_net is not None and model.recurrent[block]:
        yield from _delta_net_parts(model.delta_net, hidden)
    else:
        yield from _attention_parts(model)
    if family.post_norms:
        yield "post_attention_norm.weight", (hidden,), True
    yield family.feed_norm, (hidden,), True
    if model.experts is not None:
        yield from _experts_parts(model.experts, hidden, model.feed_forward)
    else:
        yield from _feed_forward_parts(model)
    if family.post_norms:
        yield "post_ffw_norm.weight", (hidden,), True


def prediction_parts(model: Hyperparameters) -> Iterator[Part]:
    """What a prediction block has beside its layer."""
    hidden, vocabulary = model.hidden_size, model.vocabulary
    yield "nextn.embed_tokens.weight", (vocabulary, hidden), False
    yield "nextn.enorm.weight", (hidden,), True
    yield "nextn.hnorm.weight", (hidden,), True
    yield "nextn.eh_proj.weight", (hidden, 2 * hidden), True
    yield "nextn.shared_head_norm.weight", (hidden,), False
    yield "nextn.shared_head_head.weight", (vocabulary, hidden), False


def _attention_parts(model: Hyperparameters) -> Iterator[Part]:
    hidden, family = model.hidden_size, model.family
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    asked = 2 * query if family.hybrid else query
    for part, width in (("attn_q", asked), ("attn_k", key), ("attn_v", key)):
        yield f"{part}.weight", (width, hidden), True
        if family.qkv_bias or family.optional_biases:
            yield f"{part}.bias", (width,), family.qkv_bias
    if family.qk_norm:
        yield "attn_q_norm.weight", (model.head_dim,), True
        yield "attn_k_norm.weight", (model.head_dim,), True
    yield "attn_output.weight", (hidden, query), True
    if family.optional_biases:
        yield "attn_output.bias", (hidden,), False


def _delta_net_parts(delta: DeltaNet, hidden: int) -> Iterator[Part]:
    heads = delta.value_heads
    yield "attn_qkv.weight", (delta.channels, hidden), True
    yield "attn_gate.weight", (delta.value_width, hidden), True
    if delta.grouped:
        yield "ssm_ba.weight", (2 * heads, hidden), True
    else:
        yield "ssm_beta.weight", (heads, hidden), True
        yield "ssm_alpha.weight", (heads, hidden), True
    yield "ssm_conv1d.weight", (delta.channels, delta.kernel), True
    yield "ssm_dt.bias", (heads,), True
    yield "ssm_a", (heads,), True
    yield "ssm_norm.weight", (delta.head_dim,), True
    yield "ssm_out.weight", (hidden, delta.value_width), True


def _feed_forward_parts(model: Hyperparameters) -> Iterator[Part]:
    hidden, wide = model.hidden_size, model.feed_forward
    shapes = {"ffn_gate": (wide, hidden), "ffn_up": (wide, hidden), "ffn_down": (hidden, wide)}
    for part, shape in shapes.items():
        yield f"{part}.weight", shape, True
        if model.family.optional_biases:
            yield f"{part}.bias", shape[:1], False


def _experts_parts(experts: Experts, hidden: int, shared: int) -> Iterator[Part]:
    count, wide = experts.count, experts.width
    yield "ffn_gate_inp.weight", (count, hidden), True
    yield "ffn_gate_inp_shexp.weight", (1, hidden), True
    yield "ffn_gate_shexp.weight", (shared, hidden), True
    yield "ffn_up_shexp.weight", (shared, hidden), True
    yield "ffn_down_shexp.weight", (hidden, shared), True
    yield "ffn_gate_exps.weight", (count, wide, hidden), True
    yield "ffn_up_exps.weight", (count, wide, hidden), True
    yield "ffn_down_exps.weight", (count, hidden, wide), True
