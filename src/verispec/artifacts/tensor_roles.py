"""What a tensor is for, by its GGUF name: the roles that a quantisation recipe gives types to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from verispec.artifacts.model_file import ModelFile
from verispec.errors import ArtifactError

Role = Literal[
    "attention", "recurrent", "feed_forward", "experts", "prediction", "draft_head", "embedding", "output"
]
ROLES: tuple[Role, ...] = get_args(Role)

BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
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


@dataclass(frozen=True)
class Layout:
    """How a model's tensors are laid out: its layers, the prediction blocks behind them, and its output matrix."""

    trunk_layers: int
    prediction_layers: int
    tied: bool
    """The embedding is the output matrix too: read as a whole in every pass, which is what it is counted as."""

    @property
    def prediction_blocks(self) -> range:
        """Indices of the prediction blocks."""
        return range(self.trunk_layers, self.trunk_layers + self.prediction_layers)

    def role(self, name: str) -> Role:
        """The role of a matrix."""
        layer, part = block_of(name)
        if part == DRAFT_HEAD:
            return "draft_head"
        if name == OUTPUT or (self.tied and name == EMBEDDING):
            return "output"
        if layer is None or part == "nextn.embed_tokens.weight":
            return "embedding"
        if layer >= self.trunk_layers:
            return "prediction"
        if part.endswith("_exps.weight"):
            return "experts"
        if part.startswith("ffn_"):
            return "feed_forward"
        if part.startswith("ssm_") or part in ("attn_qkv.weight", "attn_gate.weight"):
            return "recurrent"
        return "attention"


def layout_of(file: ModelFile) -> Layout:
    """The layout by the file's metadata. Raises ArtifactError when that does not say how many layers there are."""
    architecture = file.metadata.get("general.architecture")
    key = f"{architecture}.block_count"
    blocks, predicting = file.metadata.get(key), file.metadata.get(f"{architecture}.nextn_predict_layers", 0)
    if not isinstance(blocks, int) or not isinstance(predicting, int) or not 0 <= predicting < blocks:
        raise ArtifactError(file.path, f"metadata key {key}", "a number of layers", repr(blocks)[:60])
    return Layout(blocks - predicting, predicting, OUTPUT not in file.tensors)
