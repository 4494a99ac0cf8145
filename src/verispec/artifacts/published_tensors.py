"""Which GGUF tensor each published tensor becomes, and what is done to its values on the way.

Names and transformations are those of llama.cpp's converter. Matrices keep their type and move values only; vectors,
routers and convolution taps are float32, where arithmetic is done to them as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts import value_order
from verispec.artifacts.published_config import HYBRIDS, SHIFTED_NORMS, WITH_EXPERTS, PublishedConfig
from verispec.artifacts.tensor_roles import kept_in_float32
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError

Values = NDArray[Any]
Shape = tuple[int, ...]

LAYER = re.compile(r"layers\.(\d+)\.(.+)")
EXPERT = re.compile(r"mlp\.experts\.(\d+)\.(gate_proj|up_proj|down_proj)\.weight")
UNREAD = re.compile(r"(^|\.)(visual|vision_tower|multi_modal_projector|audio_tower)\.|rotary_emb\.inv_freq$")
"""Parts that the text model does not read."""

OUTSIDE = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
PREDICTION = {
    "fc.weight": "nextn.eh_proj.weight",
    "pre_fc_norm_embedding.weight": "nextn.enorm.weight",
    "pre_fc_norm_hidden.weight": "nextn.hnorm.weight",
    "norm.weight": "nextn.shared_head_norm.weight",
    "embed_tokens.weight": "nextn.embed_tokens.weight",
}
LAYER_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
NORMS = {
    "gemma3": {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
    **{hybrid: {"post_attention_layernorm": "post_attention_norm"} for hybrid in HYBRIDS},
}
PLAIN_NORMS = {"post_attention_layernorm": "ffn_norm"}


@dataclass(frozen=True)
class Published:
    """A tensor of the folder, by its publisher's name."""

    name: str
    shape: Shape
    type: TensorType


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor of the GGUF file: ``build`` makes its values, in ``shape``, from those of ``sources``.

    Sources come in their stored type, or all widened to float32 when ``type`` is F32.
    """

    name: str
    shape: Shape
    type: TensorType
    sources: tuple[str, ...]
    build: Callable[..., Values] = field(repr=False)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.type.block_bytes


def plan_tensors(config: PublishedConfig, tensors: Mapping[str, Published]) -> Iterator[PlannedTensor]:
    """Every tensor of the GGUF file, in the folder's order.

    Raises ArtifactError for a tensor that no graph of the family reads.
    """
    experts: dict[tuple[str, str], dict[int, Published]] = {}
    for name, tensor in tensors.items():
        if UNREAD.search(name) or (name == "lm_head.weight" and config.tied):
            continue
        prefix, part = place(config, name)
        expert = EXPERT.fullmatch(part)
        if expert and config.architecture in WITH_EXPERTS:
            experts.setdefault((prefix, expert[2].removesuffix("_proj")), {})[int(expert[1])] = tensor
            continue
        yield from _convert(config, prefix, part, tensor)
    for (prefix, part), members in experts.items():
        yield _stacked_experts(config, f"{prefix}ffn_{part}_exps.weight", members)


def place(config: PublishedConfig, name: str) -> tuple[str, str]:
    """The GGUF prefix (``blk.3.``, or nothing outside layers) and the rest of the publisher's name."""
    inner = name.removeprefix("model.").removeprefix("language_model.").removeprefix("model.")
    if inner.startswith("mtp."):
        layer = LAYER.fullmatch(inner.removeprefix("mtp."))
        if layer:
            return f"blk.{config.layers + int(layer[1])}.", layer[2]
        return f"blk.{config.layers}.", inner
    layer = LAYER.fullmatch(inner)
    return (f"blk.{layer[1]}.", layer[2]) if layer else ("", inner)


def _convert(config: PublishedConfig, prefix: str, part: str, tensor: Published) -> Iterator[PlannedTensor]:
    """The tensors that one published tensor becomes."""
    if part.startswith("linear_attn.") and (split := _recurrent(config, part, tensor)) is not None:
        for inner, shape, build in split:
            yield _planned(prefix + inner, shape, tensor, build)
    elif part.removesuffix(".weight") == "mlp.experts.gate_up_proj":
        experts, both, inputs = tensor.shape
        half = both // 2
        yield _planned(
            f"{prefix}ffn_gate_exps.weight", (experts, half, inputs), tensor, lambda v: v[:, :half]
        )
        yield _planned(f"{prefix}ffn_up_exps.weight", (experts, half, inputs), tensor, lambda v: v[:, half:])
    else:
        target = prefix + _gguf_part(config, part, tensor.name)
        yield _planned(target, *_changed(config, target, tensor))


def _gguf_part(config: PublishedConfig, part: str, name: str) -> str:
    """GGUF's name of a part. Raises ArtifactError when the family has none."""
    if part.startswith("mtp.") and part.removeprefix("mtp.") in PREDICTION:
        return PREDICTION[part.removeprefix("mtp.")]
    if part in OUTSIDE:
        return OUTSIDE[part]
    stem, _, ending = part.rpartition(".")
    if ending not in ("weight", "bias"):  # fused experts come without an ending
        stem, ending = part, "weight"
    parts = {**LAYER_PARTS, **NORMS.get(config.architecture, PLAIN_NORMS)}
    if stem not in parts:
        expected = f"only tensors of a {config.architecture} model"
        raise ArtifactError(config.path.parent, f"tensor {name!a}", expected, "one more")
    return f"{parts[stem]}.{ending}"


def _changed(
    config: PublishedConfig, target: str, tensor: Published
) -> tuple[Shape, Published, Callable[[Values], Values]]:
    """Shape and transformation of a tensor that becomes one other."""
    shape = tensor.shape
    if target.endswith("ffn_gate_inp_shexp.weight"):
        return (math.prod(shape),), tensor, lambda v: v.reshape(-1)
    if target.endswith("norm.weight") and config.architecture in SHIFTED_NORMS:
        return shape, tensor, lambda v: v + np.float32(1)
    if config.architecture == "llama":
        if ".attn_q." in target:
            return shape, tensor, lambda v: value_order.pair_neighbours(v, config.heads)
        if ".attn_k." in target:
            return shape, tensor, lambda v: value_order.pair_neighbours(v, config.kv_heads)
    return shape, tensor, lambda v: v


def _recurrent(
    config: PublishedConfig, part: str, tensor: Published
) -> list[tuple[str, Shape, Callable[[Values], Values]]] | None:
    """The gated delta net's own transformations; None for a part that has none."""
    heads = value_order.Heads(
        config.integer("linear_num_key_heads"),
        config.integer("linear_num_value_heads"),
        config.integer("linear_key_head_dim"),
        config.integer("linear_value_head_dim"),
        tiled=config.architecture != "qwen3next",
    )
    shape, part = tensor.shape, part.removeprefix("linear_attn.")
    if part == "norm.weight":  # plain: neither shifted nor reordered
        return [("ssm_norm.weight", shape, lambda v: v)]
    if part == "A_log":
        return [("ssm_a", shape, lambda v: -np.exp(heads.of_heads(v)))]
    if part == "dt_bias":
        return [("ssm_dt.bias", shape, heads.of_heads)]
    if part == "conv1d.weight":
        channels, taps = shape[0], shape[-1]
        return [
            ("ssm_conv1d.weight", (channels, taps), lambda v: heads.of_channels(v.reshape(channels, taps)))
        ]
    if part == "in_proj_qkv.weight":
        return [("attn_qkv.weight", shape, heads.of_channels)]
    if part == "in_proj_z.weight":
        return [("attn_gate.weight", shape, heads.of_values)]
    if part in ("in_proj_b.weight", "in_proj_a.weight"):
        return [(f"{LAYER_PARTS['linear_attn.' + part[:-7]]}.weight", shape, heads.of_heads)]
    if part == "out_proj.weight":
        return [("ssm_out.weight", shape, lambda v: heads.of_values(v.T).T)]
    if part == "in_proj_qkvz.weight":
        channels, gates = 2 * heads.key_width + heads.value_width, heads.value_width
        return [
            ("attn_qkv.weight", (channels, shape[1]), lambda v: heads.ungroup(v)[0]),
            ("attn_gate.weight", (gates, shape[1]), lambda v: heads.ungroup(v)[1]),
        ]
    return None


def _stacked_experts(config: PublishedConfig, name: str, members: dict[int, Published]) -> PlannedTensor:
    """One tensor of all experts, which are published one by one."""
    count = config.integer("num_experts")
    first = members[min(members)]
    if sorted(members) != list(range(count)):
        raise ArtifactError(
            config.path.parent, f"tensor {name}", f"experts 0 .. {count - 1}", str(len(members))
        )
    if any((one.shape, one.type) != (first.shape, first.type) for one in members.values()):
        raise ArtifactError(config.path.parent, f"tensor {name}", "experts of one shape and type", "several")
    sources = tuple(members[index].name for index in range(count))
    return PlannedTensor(name, (count, *first.shape), first.type, sources, lambda *parts: np.stack(parts))


def _planned(name: str, shape: Shape, tensor: Published, build: Callable[[Values], Values]) -> PlannedTensor:
    kind = TensorType.F32 if kept_in_float32(name, shape) else tensor.type
    return PlannedTensor(name, shape, kind, (tensor.name,), build)
