"""Hyperparameters and tensors of a file: read as the format defines them, bad ones refused by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError
from verispec.models.hyperparameters import Hyperparameters, read_hyperparameters
from verispec.models.tensors import check_tensors, expected_tensors

LLAMA: dict[str, object] = {
    "general.architecture": "llama",
    "llama.block_count": 4,
    "llama.context_length": 2048,
    "llama.embedding_length": 256,
    "llama.feed_forward_length": 512,
    "llama.attention.head_count": 4,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}


def named(architecture: str, **changes: object) -> dict[str, object]:
    """The smallest metadata of an architecture; ``changes`` have dots written as two underscores."""
    found = {key.replace("llama.", f"{architecture}."): value for key, value in LLAMA.items()}
    found["general.architecture"] = architecture
    return found | {f"{architecture}.{key.replace('__', '.')}": value for key, value in changes.items()}


def read(architecture: str = "llama", **changes: object) -> Hyperparameters:
    return read_hyperparameters("model.gguf", named(architecture, **changes), 100)


def test_what_a_file_leaves_out_has_the_formats_defaults() -> None:
    model = read()
    assert (model.kv_heads, model.head_dim, model.windows) == (4, 64, (0, 0, 0, 0))
    assert (model.rope.base, model.rope.dimensions, model.rope.scaling) == (10000.0, 64, "none")
    assert model.rope.interleaved
    assert (model.query_scale, model.embedding_scale, model.final_softcap) == (0.125, 1.0, 0.0)


def test_qwen_rotates_halves() -> None:
    assert not read("qwen2").rope.interleaved
    assert not read("qwen3").rope.interleaved
    assert read("qwen3").family.qk_norm
    assert read("qwen2").family.qkv_bias


def test_gemma3_has_two_kinds_of_layers() -> None:
    model = read("gemma3", block_count=8, attention__sliding_window=512, rope__freq_base=1e6)
    assert model.windows == (512, 512, 512, 512, 512, 0, 512, 512)
    assert model.layer_rope(0).base == 10000.0
    assert model.layer_rope(5).base == 1e6
    assert model.embedding_scale == 16.0


def test_gemma3_may_say_which_layers_slide() -> None:
    flags = [False, True, True, False]
    model = read("gemma3", attention__sliding_window=64, attention__sliding_window_pattern=flags)
    assert model.windows == (0, 64, 64, 0)
    with pytest.raises(ArtifactError, match=r"sliding_window_pattern: expected 4 flags, one a layer"):
        read("gemma3", attention__sliding_window=64, attention__sliding_window_pattern=flags[1:])


def test_gemma3_scales_only_full_layers() -> None:
    scaled = {"rope__scaling__type": "linear", "rope__scaling__factor": 8.0}
    model = read("gemma3", block_count=6, attention__sliding_window=512, **scaled)
    assert (model.layer_rope(5).scaling, model.layer_rope(5).factor) == ("linear", 8.0)
    assert model.layer_rope(0).scaling == "none"


def test_gemma3_27b_scales_queries_by_its_own_width() -> None:
    common = {"embedding_length": 5376, "attention__head_count": 32, "attention__key_length": 128}
    assert read("gemma3", block_count=62, **common).query_scale == 1 / math.sqrt(168)
    assert read("gemma3", block_count=48, **common).query_scale == 1 / math.sqrt(128)


def test_equal_numbers_for_every_layer_are_one_number() -> None:
    assert read(attention__head_count_kv=[2, 2, 2, 2]).kv_heads == 2


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "missing": ({"block_count": None}, "block_count: expected an integer in 1 .. 1024, found nothing"),
    "absurd layers": ({"block_count": 1 << 40}, "block_count: expected an integer in 1 .. 1024"),
    "zero heads": ({"attention__head_count": 0}, "attention.head_count"),
    "text for a number": ({"embedding_length": "wide"}, "embedding_length.*found 'wide'"),
    "a flag for a number": ({"embedding_length": True}, "embedding_length.*found True"),
    "an odd width": ({"embedding_length": 250}, "embedding_length.*multiple of 32, found 250"),
    "heads that do not divide": ({"attention__head_count": 3}, "head_count.*divisor"),
    "kv heads that do not divide": ({"attention__head_count_kv": 3}, "head_count_kv.*divisor.*found 3"),
    "different heads per layer": ({"attention__head_count_kv": [4, 2, 4, 2]}, "head_count_kv"),
    "no number": ({"attention__layer_norm_rms_epsilon": math.nan}, "layer_norm_rms_epsilon.*finite"),
    "values unlike keys": ({"attention__value_length": 32}, "value_length: expected 64"),
    "too many rotated": ({"rope__dimension_count": 80}, "dimension_count"),
    "unknown scaling": ({"rope__scaling__type": "longrope"}, "scaling.type: expected one of.*'longrope'"),
    "a scaling to nothing": ({"rope__scaling__factor": 1e-30}, "scaling.factor"),
    "experts": ({"expert_count": 8}, "expert_count: expected 0.*found 8"),
    "another vocabulary": ({"vocab_size": 99}, "vocab_size: expected 100"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_value_is_named(changes: dict[str, Any], message: str) -> None:
    metadata = named("llama", **{key: value for key, value in changes.items() if value is not None})
    for key, value in changes.items():
        if value is None:
            del metadata[f"llama.{key}"]
    with pytest.raises(ArtifactError, match=message) as refusal:
        read_hyperparameters("model.gguf", metadata, 100)
    assert refusal.value.file == "model.gguf"


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(ArtifactError, match=r"general.architecture: expected one of llama.*found 'mamba'"):
        read_hyperparameters("model.gguf", named("mamba"), 100)


def test_a_tokeniser_of_another_size_is_refused() -> None:
    metadata = named("llama") | {"tokenizer.ggml.tokens": ["a"] * 101}
    with pytest.raises(ArtifactError, match=r"tokenizer.ggml.tokens: expected 100 tokens.*found 101"):
        read_hyperparameters("model.gguf", metadata, 100)


@dataclass(frozen=True)
class Described:
    shape: tuple[int, ...]
    type: TensorType = TensorType.F32


def described(model: Hyperparameters) -> dict[str, Described]:
    return {tensor.name: Described(tensor.shape) for tensor in expected_tensors(model) if tensor.required}


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
def test_a_missing_or_misshapen_tensor_is_named(architecture: str) -> None:
    model = read(architecture)
    good = described(model)
    assert [tensor.name for tensor in check_tensors("f", model, good)] == list(good)
    for name, tensor in good.items():
        without = {other: shape for other, shape in good.items() if other != name}
        with pytest.raises(ArtifactError, match=f"tensor {name}: expected shape .*found no such tensor"):
            check_tensors("f", model, without)
        wrong = good | {name: replace(tensor, shape=(tensor.shape[0] + 1, *tensor.shape[1:]))}
        with pytest.raises(ArtifactError, match=f"tensor {name}: expected shape "):
            check_tensors("f", model, wrong)


def test_a_tensor_nobody_would_read_is_refused() -> None:
    model = read("llama")
    more = described(model) | {"blk.0.attn_q_norm.weight": Described((64,))}
    with pytest.raises(ArtifactError, match=r"blk.0.attn_q_norm.weight: expected only tensors that a llama"):
        check_tensors("f", model, more)
    check_tensors("f", model, described(model) | {"blk.0.attn_rot_embd": Described((32,))})


def test_optional_tensors_are_kept_when_present() -> None:
    model = read("llama")
    names = {"output.weight": (100, 256), "rope_freqs.weight": (32,), "blk.1.attn_q.bias": (256,)}
    tensors = described(model) | {name: Described(shape) for name, shape in names.items()}
    assert set(names) <= {tensor.name for tensor in check_tensors("f", model, tensors)}


def test_vectors_are_never_quantised() -> None:
    model = read("llama")
    quantised = {"blk.2.ffn_norm.weight": Described((256,), TensorType.Q8_0)}
    with pytest.raises(ArtifactError, match=r"blk.2.ffn_norm.weight: expected type F32.*found type Q8_0"):
        check_tensors("f", model, described(model) | quantised)
    halves = {"rope_freqs.weight": Described((32,), TensorType.F16)}
    with pytest.raises(ArtifactError, match=r"rope_freqs.weight: expected type F32, found type F16"):
        check_tensors("f", model, described(model) | halves)
