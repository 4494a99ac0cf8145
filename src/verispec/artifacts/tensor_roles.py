"""What a tensor is for, by its GGUF name: the roles that a quantisation recipe gives types to."""

from __future__ import annotations

import re
from typing import Literal, get_args

Role = Literal[
    "attention", "recurrent", "feed_forward", "experts", "prediction", "draft_head", "embedding", "output"
]
ROLES: tuple[Role, ...] = get_args(Role)

BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
DRAFT_HEAD = "nextn.shared_head_head.weight"
ROUTERS = ("ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight")
TAPS = "ssm_conv1d.weight"


def block_of(name: str) -> tuple[int | None, str]:
    """The layer a tensor belongs to, None outside layers, and its name within it."""
    found = BLOCK.fullmatch(name)
    return (int(found[1]), found[2]) if found else (None, name)


def kept_in_float32(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is small and sensitive: vectors, norms, routers, convolution taps. Never quantised."""
    part = block_of(name)[1]
    weight = part.endswith(".weight") and not part.endswith("norm.weight")
    return len(shape) < 2 or not weight or part in ROUTERS or part == TAPS


def role_of(name: str, trunk_layers: int) -> Role:
    """The role of a matrix; layers from ``trunk_layers`` on are prediction blocks."""
    layer, part = block_of(name)
    if part == DRAFT_HEAD:
        return "draft_head"
    if "embd" in part or part == "nextn.embed_tokens.weight":
        return "embedding"
    if layer is None:
        return "output"
    if layer >= trunk_layers:
        return "prediction"
    if part.endswith("_exps.weight"):
        return "experts"
    if part.startswith("ffn_"):
        return "feed_forward"
    if part.startswith("ssm_") or part in ("attn_qkv.weight", "attn_gate.weight"):
        return "recurrent"
    return "attention"
