"""``config.json`` of a published draft head as GGUF metadata.

The one place where the layers that a head reads are brought to one numbering: publishers count them by input or by
output, and call both "layer ids".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.json_file import read_json_object
from verispec.artifacts.published_config import ARCHITECTURES, CONFIG, PublishedConfig, metadata
from verispec.errors import ArtifactError

MASK_TOKEN = "tokenizer.ggml.mask_token_id"
DECODERS = ("llama", "qwen3")
"""Families whose layers the heads are made of."""
DEFAULT_BLOCK = 16
"""Of DFlash heads whose file is silent."""


@dataclass(frozen=True)
class DraftConfig:
    """A head's configuration: ``decoder`` holds its layers' numbers, ``values`` all of the file."""

    path: Path
    architecture: str
    values: Mapping[str, Any]
    decoder: PublishedConfig

    @classmethod
    def read(cls, folder: Path, architecture: str) -> DraftConfig:
        """``architecture``: ``eagle3`` or ``dflash``, as the tensors say. Raises ArtifactError."""
        path = folder / CONFIG
        values = read_json_object(path)
        inner = values.get("transformer_layer_config")  # as ``speculators`` nests it
        numbers = inner if isinstance(inner, dict) else values
        named = numbers.get("model_type", "llama")
        family = ARCHITECTURES.get(named) if isinstance(named, str) else None
        if family not in DECODERS:
            raise ArtifactError(path, "model_type", " or ".join(DECODERS), repr(named))
        config = cls(path, architecture, values, PublishedConfig(path, family, numbers))
        config.decoder.check_representable()
        config.check_representable()
        return config

    @property
    def of_speculators(self) -> bool:
        return "speculators_model_type" in self.values

    def check_representable(self) -> None:
        """Raises ArtifactError for settings that the graphs do not have."""
        kinds = self.decoder.values.get("layer_types") or []
        if any(kind != "full_attention" for kind in kinds):
            raise self.decoder.refuse("layer_types", "full_attention in every layer", kinds)
        head = self.values.get("markov_head_type", "vanilla")
        if head not in ("vanilla", "gated"):
            raise self.decoder.refuse("markov_head_type", "vanilla or gated", head)
        if self.values.get("projector_type", "dflash") != "dflash":
            raise self.decoder.refuse("projector_type", "dflash", self.values["projector_type"])

    def of_draft(self, key: str) -> Any:
        """A value that z-lab nests under ``dflash_config``, others do not."""
        nested = self.values.get("dflash_config")
        if isinstance(nested, dict) and nested.get(key) is not None:
            return nested[key]
        return self.values.get(key)


def draft_metadata(config: DraftConfig) -> dict[str, MetadataValue]:
    """Every metadata key of the GGUF file that the folder stands for."""
    decoder, kind = config.decoder, config.architecture
    prefix = f"{decoder.architecture}."
    numbers = {
        key.removeprefix(prefix): value
        for key, value in metadata(decoder, 0).items()
        if key.startswith(prefix)
    }
    keys: dict[str, MetadataValue] = {**numbers, "target_hidden_size": _target_width(config)}
    taps = target_taps(config)
    if taps is not None:
        keys["target_layers"] = taps
    if kind == "eagle3":
        keys |= _eagle3_keys(config)
    else:
        keys |= _dflash_keys(config)
    named = {f"{kind}.{key}": value for key, value in keys.items()}
    tokens: dict[str, MetadataValue] = {} if kind == "eagle3" else {MASK_TOKEN: _mask_token(config)}
    return {
        "general.architecture": kind,
        "general.name": config.path.parent.resolve().name,
        **named,
        **tokens,
    }


def target_taps(config: DraftConfig) -> list[int] | None:
    """The hidden states that the head reads, as ``ops.contract`` numbers them; None where the file leaves it to the
    target (EAGLE-3's layers 2, L // 2 and L - 3, by their inputs).

    ``speculators`` counts layers by their input. SpecForge (``eagle_config``), z-lab and DeepSpec count them by their
    output, -1 being the embedding's.
    """
    values = config.values
    names = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids")
    by_input = next((values[name] for name in names if values.get(name) is not None), None)
    nested = values.get("eagle_config")
    by_output = nested.get(names[0]) if isinstance(nested, dict) else config.of_draft("target_layer_ids")
    ids = by_output if by_input is None else by_input
    if ids is None:
        return None
    whole = isinstance(ids, list) and ids and all(type(one) is int and one >= -1 for one in ids)
    if not whole:
        raise config.decoder.refuse("target layer ids", "a list of layers", ids)
    return [one + 1 for one in ids] if by_input is None else list(ids)


def _target_width(config: DraftConfig) -> int:
    width = config.values.get("target_hidden_size")
    if width is None:
        return config.decoder.integer("hidden_size")
    if type(width) is not int or width < 1:
        raise config.decoder.refuse("target_hidden_size", "a width", width)
    return width


def _eagle3_keys(config: DraftConfig) -> dict[str, MetadataValue]:
    """Where the variants differ. A head of ``speculators`` has to say which it is: its readers assume either."""
    first = config.values.get("norm_before_residual", None if config.of_speculators else False)
    if not isinstance(first, bool):
        raise config.decoder.refuse("norm_before_residual", "true or false", first)
    return {
        "norm_before_residual": first,
        "norm_before_fc": bool(config.values.get("norm_before_fc", False)),
        "norm_output": bool(config.values.get("norm_output", False)),
    }


def _dflash_keys(config: DraftConfig) -> dict[str, MetadataValue]:
    size = config.of_draft("block_size")
    size = DEFAULT_BLOCK if size is None else size
    if type(size) is not int or size < 2:
        raise config.decoder.refuse("block_size", "at least 2 tokens", size)
    from_anchor = config.values.get("sample_from_anchor")
    if from_anchor is None:
        rank = config.values.get("markov_rank", 0)
        if type(rank) is not int:
            raise config.decoder.refuse("markov_rank", "a whole number", rank)
        from_anchor = rank > 0
    return {"block_size": size, "sample_from_anchor": bool(from_anchor)}


def _mask_token(config: DraftConfig) -> int:
    token = config.of_draft("mask_token_id")
    if type(token) is not int or token < 0:
        raise config.decoder.refuse("mask_token_id", "a token id", token)
    return token
