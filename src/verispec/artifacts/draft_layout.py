"""Published folders of draft heads: which GGUF tensor each published one becomes, and what ``config.json`` says.

Read are EAGLE-3 as SafeAILab and SpecForge publish it, DFlash as z-lab does, DSpark as DeepSpec does, and the forms
that the package ``speculators`` gives to all three.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts import value_order
from verispec.artifacts.digests import folder_sha256
from verispec.artifacts.draft_config import DraftConfig, draft_metadata
from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.published_tensors import PlannedTensor
from verispec.artifacts.safetensors_folder import rotary_factors, single_precision
from verispec.artifacts.safetensors_reader import VIEWS, PublishedTensor, SafetensorsReader, widen
from verispec.artifacts.tensor_roles import kept_in_float32
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError

D2T, T2D = "d2t", "t2d"
UNREAD = re.compile(r"^verifier_(norm|lm_head)\.|rotary_emb\.inv_freq$")
"""Copies of the target's parts, and what follows from the configuration."""

LAYER = re.compile(r"layers\.(\d+)\.(.+)\.(weight|bias)")
LAYER_PARTS = {
    "input_layernorm": "attn_norm",
    "hidden_norm": "attn_norm_2",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTSIDE = {
    "embed_tokens.weight": "token_embd.weight",
    "fc.weight": "fc.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_norm.weight": "fc_norm.weight",
    "hidden_norm.weight": "enc.output_norm.weight",
    "markov_head.markov_w1.weight": "markov_w1.weight",
    "markov_head.markov_w2.weight": "markov_w2.weight",
    "markov_head.gate_proj.weight": "markov_gate.weight",
    "markov_head.gate_proj.bias": "markov_gate.bias",
    "confidence_head.proj.weight": "conf_proj.weight",
    "confidence_head.proj.bias": "conf_proj.bias",
}


class PublishedDraft:
    """An open folder, a ``ModelFile``. Use ``PublishedDraft.open``."""

    def __init__(
        self,
        path: Path,
        reader: SafetensorsReader,
        metadata: dict[str, MetadataValue],
        tensors: dict[str, PlannedTensor],
        draft_ids: NDArray[np.int64] | None,
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.tensors = tensors
        self.draft_ids = draft_ids
        self._reader = reader

    @classmethod
    def open(cls, path: Path) -> PublishedDraft:
        """Reads configuration and headers. Raises ArtifactError for what is malformed or would not be read."""
        reader = SafetensorsReader.open(path, (D2T, T2D))
        names = {name: inner_name(name) for name in reader.tensors}
        config = DraftConfig.read(path, architecture_of(path, names.values()))
        planned = [*plan(config, reader.tensors, names), *rotary_factors(config.decoder)]
        tensors = {tensor.name: tensor for tensor in planned}
        if len(tensors) != len(planned):
            raise ArtifactError(path, "tensors", "one published tensor for each of a draft head", "several")
        metadata = {key: single_precision(value) for key, value in draft_metadata(config).items()}
        return cls(
            path, reader, metadata, tensors, draft_ids(path, reader, config.decoder.integer("vocab_size"))
        )

    def data(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor as a GGUF file would hold them."""
        if name not in self.tensors:
            raise ArtifactError(self.path, f"tensor {name!r}", "a tensor of that name", "none")
        tensor = self.tensors[name]
        sources: list[NDArray[Any]] = [self._reader.read(source) for source in tensor.sources]
        if tensor.type is TensorType.F32:
            sources = [widen(source) for source in sources]
        stored = np.ascontiguousarray(tensor.build(*sources), VIEWS[tensor.type]).reshape(-1).view(np.uint8)
        stored.flags.writeable = False
        return stored

    def release(self, name: str) -> None:
        """Lets the system drop the pages that the tensor was made from."""
        for source in self.tensors[name].sources:
            self._reader.release(source)

    def sha256(self, *, remembered: bool = True) -> str:
        """SHA-256 over the names and digests of the folder's files."""
        return folder_sha256(self.path, remembered=remembered)

    def close(self) -> None:
        """Closes the folder. Views from ``data`` stay valid."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def inner_name(name: str) -> str:
    """A published name without what only some publishers put before it; EAGLE calls its one layer ``midlayer``."""
    inner = name.removeprefix("model.")
    return f"layers.0.{inner.removeprefix('midlayer.')}" if inner.startswith("midlayer.") else inner


def architecture_of(path: Path, names: Any) -> str:
    """The architecture by the norm over the target's hidden states: within the layer (eagle3), or before all."""
    found = set(names)
    if "layers.0.hidden_norm.weight" in found:
        return "eagle3"
    if "hidden_norm.weight" in found:
        return "dflash"
    expected = "hidden_norm.weight, within layer 0 (eagle3) or outside (dflash and dspark)"
    raise ArtifactError(path, "tensors", expected, "neither")


def plan(
    config: DraftConfig, tensors: Mapping[str, PublishedTensor], names: Mapping[str, str]
) -> Iterator[PlannedTensor]:
    """Every tensor of the GGUF file. Raises ArtifactError for one that no draft graph reads."""
    for name, tensor in tensors.items():
        if UNREAD.search(names[name]):
            continue
        target = gguf_name(config.path.parent, names[name])
        kind = TensorType.F32 if kept_in_float32(target, tensor.shape) else tensor.type
        yield PlannedTensor(target, tensor.shape, kind, (name,), _turned(config, target))


def gguf_name(path: Path, name: str) -> str:
    """GGUF's name of a published tensor."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    layer = LAYER.fullmatch(name)
    if layer is None or layer[2] not in LAYER_PARTS:
        raise ArtifactError(
            path, f"tensor {name!a}", "only tensors of an EAGLE-3, DFlash or DSpark head", "one more"
        )
    return f"blk.{layer[1]}.{LAYER_PARTS[layer[2]]}.{layer[3]}"


def _turned(config: DraftConfig, target: str) -> Any:
    """What is done to the values: ``eagle3`` files rotate neighbouring dimensions, published heads the halves."""
    decoder = config.decoder
    if config.architecture == "eagle3":
        if ".attn_q." in target:
            return lambda v: value_order.pair_neighbours(v, decoder.heads)
        if ".attn_k." in target:
            return lambda v: value_order.pair_neighbours(v, decoder.kv_heads)
        if target.endswith(("attn_q_norm.weight", "attn_k_norm.weight")):
            return lambda v: value_order.pair_neighbours(v, 1)
    return lambda v: v


def draft_ids(path: Path, reader: SafetensorsReader, vocabulary: int) -> NDArray[np.int64] | None:
    """The target's token of each output, from the published offsets; the mask over the ``vocabulary`` beside them must
    say the same."""
    offsets, mask = reader.table(D2T), reader.table(T2D)
    if offsets is None:
        if mask is not None:
            raise ArtifactError(path, f"tensor {T2D}", f"{D2T} beside it", "none")
        return None
    ids = np.arange(len(offsets)) + offsets
    same = mask is None or (len(mask) == vocabulary and np.array_equal(np.flatnonzero(mask), np.sort(ids)))
    if not same:
        raise ArtifactError(path, f"tensor {T2D}", f"a mask of the tokens that {D2T} names", "another")
    return ids
