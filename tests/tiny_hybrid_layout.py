"""What little hybrid models are made of: their numbers, and the names and shapes of their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiny_llama import VOCABULARY

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TinyHybrid:
    """What a little hybrid is like. ``wide_hybrid`` gives widths that suit K-quants."""

    architecture: str = "qwen35"
    matrices: str = "F32"
    head: str | None = None
    """Type of a separate output matrix; None ties it to the embedding."""
    layers: int = 4
    """Of the trunk; every ``interval``-th attends."""
    interval: int = 4
    prediction: int = 0
    """Prediction blocks after the trunk."""
    draft_head: str | None = None
    """Type of the prediction block's own head."""
    own_embedding: bool = False
    """The prediction block has an embedding of its own."""
    own_norm: bool = True
    """The prediction block has a final norm of its own."""
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    rotated: int = 16
    key_heads: int = 2
    value_heads: int = 4
    state: int = 16
    """Width of a key head and of a value head."""
    kernel: int = 4
    wide: int = 96
    experts: int = 6
    used: int = 3
    expert_wide: int = 32
    context: int = 512
    vocabulary: int = VOCABULARY
    tokeniser: bool = False

    @property
    def epsilon(self) -> float:
        return float(np.float32(1e-6))

    @property
    def routed(self) -> bool:
        return self.architecture != "qwen35"

    @property
    def grouped(self) -> bool:
        """Value heads of one key head stand together."""
        return self.architecture == "qwen3next"

    @property
    def channels(self) -> int:
        return (2 * self.key_heads + self.value_heads) * self.state

    def recurrent(self, layer: int) -> bool:
        return (layer + 1) % self.interval != 0


def wide_hybrid(architecture: str = "qwen35", **changes: object) -> TinyHybrid:
    """Every row of a matrix a multiple of 256 columns, as K-quants need."""
    widths = {"hidden": 256, "wide": 256, "expert_wide": 256, "head_dim": 64, "rotated": 32, "state": 64}
    return TinyHybrid(architecture, **(widths | changes))  # type: ignore[arg-type]


def shapes(model: TinyHybrid) -> Iterator[tuple[str, Shape]]:
    """Tensor names and shapes (experts first, then outputs, inputs), in graph order."""
    hidden = model.hidden
    yield "token_embd.weight", (model.vocabulary, hidden)
    for layer in range(model.layers + model.prediction):
        predicts = layer >= model.layers
        mixer = attention_shapes(model) if predicts or not model.recurrent(layer) else delta_shapes(model)
        feed = expert_shapes(model) if model.routed else dense_shapes(model)
        block = prediction_shapes(model) if predicts else {}
        for part, shape in (block | mixer | feed).items():
            yield f"blk.{layer}.{part}", shape
    yield "output_norm.weight", (hidden,)
    if model.head:
        yield "output.weight", (model.vocabulary, hidden)


def attention_shapes(model: TinyHybrid) -> dict[str, Shape]:
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return {
        "attn_norm.weight": (model.hidden,),
        "attn_q.weight": (2 * query, model.hidden),
        "attn_k.weight": (key, model.hidden),
        "attn_v.weight": (key, model.hidden),
        "attn_q_norm.weight": (model.head_dim,),
        "attn_k_norm.weight": (model.head_dim,),
        "attn_output.weight": (model.hidden, query),
        "post_attention_norm.weight": (model.hidden,),
    }


def delta_shapes(model: TinyHybrid) -> dict[str, Shape]:
    heads, value = model.value_heads, model.value_heads * model.state
    if model.architecture == "qwen3next":
        rates: dict[str, Shape] = {"ssm_ba.weight": (2 * heads, model.hidden)}
    else:
        rates = {"ssm_beta.weight": (heads, model.hidden), "ssm_alpha.weight": (heads, model.hidden)}
    return {
        "attn_norm.weight": (model.hidden,),
        "attn_qkv.weight": (model.channels, model.hidden),
        "attn_gate.weight": (value, model.hidden),
        "ssm_conv1d.weight": (model.channels, model.kernel),
        "ssm_dt.bias": (heads,),
        "ssm_a": (heads,),
        **rates,
        "ssm_norm.weight": (model.state,),
        "ssm_out.weight": (model.hidden, value),
        "post_attention_norm.weight": (model.hidden,),
    }


def dense_shapes(model: TinyHybrid) -> dict[str, Shape]:
    return {
        "ffn_gate.weight": (model.wide, model.hidden),
        "ffn_up.weight": (model.wide, model.hidden),
        "ffn_down.weight": (model.hidden, model.wide),
    }


def expert_shapes(model: TinyHybrid) -> dict[str, Shape]:
    count, inner, hidden = model.experts, model.expert_wide, model.hidden
    return {
        "ffn_gate_inp.weight": (count, hidden),
        "ffn_gate_exps.weight": (count, inner, hidden),
        "ffn_up_exps.weight": (count, inner, hidden),
        "ffn_down_exps.weight": (count, hidden, inner),
        "ffn_gate_inp_shexp.weight": (hidden,),
        "ffn_gate_shexp.weight": (model.wide, hidden),
        "ffn_up_shexp.weight": (model.wide, hidden),
        "ffn_down_shexp.weight": (hidden, model.wide),
    }


def prediction_shapes(model: TinyHybrid) -> dict[str, Shape]:
    hidden = model.hidden
    found: dict[str, Shape] = {
        "nextn.eh_proj.weight": (hidden, 2 * hidden),
        "nextn.enorm.weight": (hidden,),
        "nextn.hnorm.weight": (hidden,),
    }
    if model.own_embedding:
        found["nextn.embed_tokens.weight"] = (model.vocabulary, hidden)
    if model.draft_head:
        found["nextn.shared_head_head.weight"] = (model.vocabulary, hidden)
    if model.own_norm:
        found["nextn.shared_head_norm.weight"] = (hidden,)
    return found


def metadata(model: TinyHybrid) -> dict[str, object]:
    """Keys after the architecture's name."""
    keys: dict[str, object] = {
        "block_count": model.layers + model.prediction,
        "context_length": model.context,
        "embedding_length": model.hidden,
        "attention.head_count": model.heads,
        "attention.head_count_kv": model.kv_heads,
        "attention.key_length": model.head_dim,
        "attention.value_length": model.head_dim,
        "attention.layer_norm_rms_epsilon": model.epsilon,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": model.rotated,
        "full_attention_interval": model.interval,
        "ssm.conv_kernel": model.kernel,
        "ssm.state_size": model.state,
        "ssm.group_count": model.key_heads,
        "ssm.time_step_rank": model.value_heads,
        "ssm.inner_size": model.value_heads * model.state,
    }
    if model.prediction:
        keys["nextn_predict_layers"] = model.prediction
    if model.architecture != "qwen3next":
        keys["rope.dimension_sections"] = sections(model.rotated // 2)
    if model.routed:
        keys |= {"expert_count": model.experts, "expert_used_count": model.used}
        keys |= {"expert_feed_forward_length": model.expert_wide}
        keys |= {"expert_shared_feed_forward_length": model.wide}
    else:
        keys["feed_forward_length"] = model.wide
    return keys


def sections(pairs: int) -> list[int]:
    """Pairs by what they turn with (time, height, width, nothing): dealt out in turn, as published files do."""
    return [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3, 0]
