"""``config.json`` of a published model as GGUF metadata: the keys that llama.cpp's converter writes, by its names.

What a GGUF file of the family cannot say (another activation, a bias, layers of another kind) is refused, never left
out: the file would be another model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.artifacts.gguf_header import MetadataValue
from verispec.artifacts.json_file import read_json_object
from verispec.errors import ArtifactError, UnsupportedError

CONFIG = "config.json"

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "qwen3_5": "qwen35",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_5_moe_text": "qwen35moe",
    "qwen3_next": "qwen3next",
}
"""``model_type`` to GGUF architecture id."""
HYBRIDS = ("qwen35", "qwen35moe", "qwen3next")
WITH_EXPERTS = ("qwen35moe", "qwen3next")
SHIFTED_NORMS = ("gemma3", *HYBRIDS)
"""Published norm weights are w where the model multiplies by 1 + w; GGUF holds the sum."""
ROTARY_SECTIONS = [11, 11, 10, 0]
"""Of Qwen3.5 where its file is silent."""
PARTIAL_ROTARY = 0.25
GEMMA3_DEFAULTS = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
}
"""Of published Gemma 3 files, which leave out what transformers takes for granted."""


@dataclass(frozen=True)
class PublishedConfig:
    """The text model's configuration. ``values`` is the object that holds its numbers."""

    path: Path
    architecture: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> PublishedConfig:
        """Raises ArtifactError for a file that is missing or malformed, UnsupportedError for an unknown family."""
        path = folder / CONFIG
        whole = read_json_object(path)
        kind = whole.get("model_type")
        if not isinstance(kind, str) or kind not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise UnsupportedError(
                "unknown-model-type",
                f"{path}: model_type: expected one of {known}, found {kind!r}",
                "Convert it with llama.cpp's converter, and load the GGUF file",
            )
        inner = whole.get("text_config")
        values = {**whole, **inner} if isinstance(inner, dict) else whole
        if ARCHITECTURES[kind] == "gemma3":
            values = {**GEMMA3_DEFAULTS, **values}
        config = cls(path, ARCHITECTURES[kind], values)
        config.check_representable()
        return config

    def refuse(self, key: str, expected: str, found: object) -> ArtifactError:
        """The error for the value of ``key``; the caller raises it."""
        return ArtifactError(self.path, key, expected, "nothing" if found is None else repr(found)[:80])

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.refuse(key, "a whole number", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        return self.number_among(self.values, key, default)

    def number_among(self, values: Mapping[str, Any], key: str, default: float | None = None) -> float:
        """The number ``key`` of a table of the file's, or ``default``."""
        value = values.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise self.refuse(key, "a number", value)
        return float(value)

    @property
    def layers(self) -> int:
        return self.integer("num_hidden_layers")

    @property
    def heads(self) -> int:
        return self.integer("num_attention_heads")

    @property
    def kv_heads(self) -> int:
        return self.integer("num_key_value_heads", self.heads)

    @property
    def head_dim(self) -> int:
        return self.integer("head_dim", self.integer("hidden_size") // max(self.heads, 1))

    @property
    def tied(self) -> bool:
        """Whether the output matrix is the embedding."""
        return bool(self.values.get("tie_word_embeddings", False))

    @property
    def prediction_layers(self) -> int | None:
        """How many prediction blocks the file promises; None where it is silent."""
        value = self.values.get("mtp_num_hidden_layers")
        return None if value is None else self.integer("mtp_num_hidden_layers")

    @property
    def rotary(self) -> Mapping[str, Any]:
        """Rotary parameters of the full-attention layers, in the older or the newer form of the file."""
        old = self.values.get("rope_scaling") or {}
        new = self.values.get("rope_parameters") or {}
        if not isinstance(old, dict) or not isinstance(new, dict):
            raise self.refuse("rope_parameters", "an object", new or old)
        own = new.get("full_attention", new)
        if not isinstance(own, dict):
            raise self.refuse("rope_parameters.full_attention", "an object", own)
        merged = {**old, **own}
        if "type" in merged:
            merged.setdefault("rope_type", merged["type"])
        return merged

    def recurrent_layers(self) -> list[bool]:
        """Per layer, whether it is a gated delta net."""
        if self.architecture not in HYBRIDS:
            return [False] * self.layers
        kinds = self.values.get("layer_types")
        if kinds is None:
            interval = self.integer("full_attention_interval", 4)
            if not interval:
                raise self.refuse("full_attention_interval", "at least 1", interval)
            return [(layer + 1) % interval != 0 for layer in range(self.layers)]
        known = {"linear_attention": True, "full_attention": False}
        if (
            not isinstance(kinds, list)
            or len(kinds) != self.layers
            or any(not isinstance(kind, str) or kind not in known for kind in kinds)
        ):
            raise self.refuse("layer_types", f"{self.layers} entries among {', '.join(known)}", kinds)
        return [known[kind] for kind in kinds]

    def check_representable(self) -> None:
        """Raises ArtifactError for a setting that the family's GGUF files have no way to say."""
        name = "hidden_activation" if self.architecture == "gemma3" else "hidden_act"
        expected = ("gelu_pytorch_tanh",) if self.architecture == "gemma3" else ("silu", "swish")
        if self.values.get(name, expected[0]) not in expected:
            raise self.refuse(name, " or ".join(expected), self.values[name])
        if self.architecture in HYBRIDS and self.values.get("attention_bias"):
            raise self.refuse("attention_bias", "false", True)
        if self.architecture in ("qwen2", "qwen3") and self.values.get("use_sliding_window"):
            raise self.refuse("use_sliding_window", "false", True)
        if self.architecture in WITH_EXPERTS:
            if self.values.get("norm_topk_prob") is False:
                raise self.refuse("norm_topk_prob", "true", False)
            if self.values.get("mlp_only_layers") or self.integer("decoder_sparse_step", 1) != 1:
                raise self.refuse("mlp_only_layers", "experts in every layer", "dense layers too")


def metadata(config: PublishedConfig, prediction_layers: int) -> dict[str, MetadataValue]:
    """Every key below ``<architecture>.``, and ``general.architecture``; ``prediction_layers`` are those present."""
    keys: dict[str, MetadataValue] = {
        "block_count": config.layers + prediction_layers,
        "context_length": config.integer("max_position_embeddings"),
        "embedding_length": config.integer("hidden_size"),
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.number("rms_norm_eps", 1e-6),
        "vocab_size": config.integer("vocab_size"),
        **_rotary_keys(config),
    }  # fmt: skip
    if config.values.get("intermediate_size") is not None:
        keys["feed_forward_length"] = config.integer("intermediate_size")
    if config.architecture == "gemma3":
        keys |= _gemma3_keys(config)
    if config.architecture in HYBRIDS:
        keys |= _hybrid_keys(config, prediction_layers)
    if config.architecture in WITH_EXPERTS:
        keys |= {
            "expert_count": config.integer("num_experts"),
            "expert_used_count": config.integer("num_experts_per_tok"),
            "expert_feed_forward_length": config.integer("moe_intermediate_size"),
            "expert_shared_feed_forward_length": config.integer("shared_expert_intermediate_size"),
        }
    named = {f"{config.architecture}.{key}": value for key, value in keys.items()}
    return {"general.architecture": config.architecture, **named}


def _rotary_keys(config: PublishedConfig) -> dict[str, MetadataValue]:
    rotary = config.rotary
    both = {**config.values, **rotary}
    theta = config.number_among(both, "rope_theta", 1e6 if config.architecture == "gemma3" else 1e4)
    share_by_default = PARTIAL_ROTARY if config.architecture in HYBRIDS else 1.0
    share = config.number_among(both, "partial_rotary_factor", share_by_default)
    if not 0 < share <= 1:
        raise config.refuse("partial_rotary_factor", "over 0 and at most 1", share)
    keys: dict[str, MetadataValue] = {
        "rope.freq_base": theta,
        "rope.dimension_count": int(config.head_dim * share),
    }
    kind = rotary.get("rope_type", "default")
    if kind in ("linear", "yarn"):
        keys |= {"rope.scaling.type": kind, "rope.scaling.factor": config.number_among(rotary, "factor")}
    elif kind not in ("default", "mrope", "llama3"):
        raise config.refuse("rope_type", "default, linear, yarn or llama3", kind)
    if kind == "yarn":
        keys |= _yarn_keys(config, rotary)
    return keys


def _yarn_keys(config: PublishedConfig, rotary: Mapping[str, Any]) -> dict[str, MetadataValue]:
    original = rotary.get("original_max_position_embeddings")
    if not isinstance(original, int):
        raise config.refuse("original_max_position_embeddings", "a whole number", original)
    renamed = {
        "extrapolation_factor": "yarn_ext_factor",
        "attention_factor": "yarn_attn_factor",
        "beta_fast": "yarn_beta_fast",
        "beta_slow": "yarn_beta_slow",
    }
    given = {
        new: config.number_among(rotary, old) for old, new in renamed.items() if rotary.get(old) is not None
    }
    keys = {"original_context_length": original, **given}
    return {f"rope.scaling.{key}": value for key, value in keys.items()}


def _gemma3_keys(config: PublishedConfig) -> dict[str, MetadataValue]:
    keys: dict[str, MetadataValue] = {"attention.sliding_window": config.integer("sliding_window")}
    parameters = config.values.get("rope_parameters") or {}
    sliding = parameters.get("sliding_attention") or {}
    if not isinstance(sliding, dict):
        raise config.refuse("rope_parameters.sliding_attention", "an object", sliding)
    bases = {"rope_local_base_freq": config.values.get("rope_local_base_freq"), **sliding}
    key = "rope_theta" if "rope_theta" in sliding else "rope_local_base_freq"
    if bases[key] is not None:
        keys["rope.freq_base_swa"] = config.number_among(bases, key)
    if config.values.get("final_logit_softcapping"):
        keys["final_logit_softcapping"] = config.number("final_logit_softcapping")
    if config.values.get("attn_logit_softcapping"):
        raise config.refuse("attn_logit_softcapping", "none", config.values["attn_logit_softcapping"])
    kinds = config.values.get("layer_types")
    if isinstance(kinds, list):
        keys["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in kinds]
    return keys


def _hybrid_keys(config: PublishedConfig, prediction_layers: int) -> dict[str, MetadataValue]:
    value_heads, value_dim = config.integer("linear_num_value_heads"), config.integer("linear_value_head_dim")
    if config.integer("linear_key_head_dim") != value_dim:
        raise config.refuse(
            "linear_key_head_dim", f"{value_dim}, the value heads' size", config.values["linear_key_head_dim"]
        )
    recurrent = config.recurrent_layers()
    keys: dict[str, MetadataValue] = {
        "ssm.conv_kernel": config.integer("linear_conv_kernel_dim"),
        "ssm.state_size": config.integer("linear_key_head_dim"),
        "ssm.group_count": config.integer("linear_num_key_heads"),
        "ssm.time_step_rank": value_heads,
        "ssm.inner_size": value_heads * value_dim,
        "full_attention_interval": recurrent.index(False) + 1 if False in recurrent else len(recurrent) + 1,
        "attention.recurrent_layers": recurrent + [False] * prediction_layers,
    }  # fmt: skip
    if config.architecture != "qwen3next":
        sections = config.rotary.get("mrope_section", ROTARY_SECTIONS)
        if not isinstance(sections, list) or not all(type(count) is int for count in sections):
            raise config.refuse("mrope_section", "a list of whole numbers", sections)
        keys["rope.dimension_sections"] = [*sections, 0, 0, 0, 0][:4]
    if prediction_layers:
        keys["nextn_predict_layers"] = prediction_layers
    return keys
