"""Numbers and tensors of hybrid files: read as the format defines them, bad ones refused by name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiny_hybrid import HYBRIDS, TinyHybrid, write_hybrid
from tiny_hybrid_layout import metadata, shapes
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError
from verispec.models.hyperparameters import QWEN35_FAMILIES, Hyperparameters, read_hyperparameters
from verispec.models.memory import MIB, PassLimits, kept_positions, memory_need
from verispec.models.tensors import check_tensors, expected_tensors

EVERY = {name: TinyHybrid(name, prediction=1) for name in QWEN35_FAMILIES}


class Described:
    def __init__(self, shape: tuple[int, ...], kind: TensorType = TensorType.F32) -> None:
        self.shape = shape
        self.type = kind


def read(model: TinyHybrid, **changes: object) -> Hyperparameters:
    """``changes`` have dots written as two underscores; None removes a key."""
    values = metadata(model) | {key.replace("__", "."): value for key, value in changes.items()}
    kept = {f"{model.architecture}.{key}": value for key, value in values.items() if value is not None}
    kept["general.architecture"] = model.architecture
    return read_hyperparameters("model.gguf", kept, model.vocabulary)


def described(model: TinyHybrid) -> dict[str, Described]:
    return {name: Described(shape) for name, shape in shapes(model)}


def test_the_numbers_are_those_of_the_file() -> None:
    model = read(TinyHybrid("qwen35moe", prediction=1, value_heads=6))
    assert (model.layers, model.prediction_layers, model.blocks) == (4, 1, 5)
    assert model.recurrent == (True, True, True, False, False)
    assert (model.rope.dimensions, model.rope.interleaved, model.head_dim) == (16, False, 32)
    assert model.delta_net is not None
    assert model.delta_net.channels == (2 * 2 + 6) * 16
    assert model.delta_net.convolution_floats == 3 * model.delta_net.channels
    assert model.delta_net.recurrent_floats == 6 * 16 * 16
    assert model.state_floats == 3 * model.delta_net.state_floats
    assert model.experts is not None
    assert (model.experts.count, model.experts.used, model.experts.width) == (6, 3, 32)
    assert (model.feed_forward, model.experts.normalise) == (96, True)


def test_what_a_file_leaves_out_has_the_formats_defaults() -> None:
    left_out = {"full_attention_interval": None, "rope__dimension_sections": None}
    assert (
        read(TinyHybrid("qwen35", layers=8, interval=3), **left_out).recurrent
        == (True, True, True, False) * 2
    )
    routed = TinyHybrid("qwen35moe", used=3)
    other = read(routed, expert_feed_forward_length=None, feed_forward_length=192)
    assert other.experts is not None
    assert other.experts.width == 64
    shared = read(routed, expert_shared_feed_forward_length=None, feed_forward_length=192)
    assert shared.feed_forward == 192


def test_a_file_may_say_which_layers_recur() -> None:
    model = TinyHybrid("qwen35", prediction=1)
    flags = [True, False, True, False, False]
    assert read(model, attention__recurrent_layers=flags).recurrent == tuple(flags)
    with pytest.raises(ArtifactError, match=r"recurrent_layers: expected 5 flags, one a layer"):
        read(model, attention__recurrent_layers=flags[:4])
    with pytest.raises(
        ArtifactError, match=r"recurrent_layers: expected no flag for the 1 prediction blocks"
    ):
        read(model, attention__recurrent_layers=[*flags[:4], True])


def test_a_trunk_of_attention_alone_keeps_no_state() -> None:
    model = read(TinyHybrid("qwen35", prediction=1), full_attention_interval=1)
    assert not any(model.recurrent)
    assert model.state_floats == 0


REFUSED: dict[str, tuple[str, dict[str, object], str]] = {
    "no state size": (
        "qwen35",
        {"ssm__state_size": None},
        "ssm.state_size: expected an integer.*found nothing",
    ),
    "no convolution": (
        "qwen35",
        {"ssm__conv_kernel": 1},
        "ssm.conv_kernel: expected an integer in 2 .. 8, found 1",
    ),
    "heads that do not divide": (
        "qwen35",
        {"ssm__group_count": 3},
        "time_step_rank.*multiple of group_count 3.*4",
    ),
    "another value width": (
        "qwen35",
        {"ssm__inner_size": 96},
        "ssm.inner_size: expected 64, 4 value heads.*found 96",
    ),
    "an interval of 0": ("qwen35", {"full_attention_interval": 0}, "full_attention_interval.*found 0"),
    "sections that are none": (
        "qwen35",
        {"rope__dimension_sections": [3, -3, 2, 0]},
        "dimension_sections.*counts",
    ),
    "sections of another kind": ("qwen35", {"rope__dimension_sections": 8}, "dimension_sections.*found 8"),
    "no trunk": ("qwen35", {"block_count": 1}, "block_count: expected an integer in 2 .. 1024, found 1"),
    "too many blocks": ("qwen35", {"nextn_predict_layers": 9}, "nextn_predict_layers.*found 9"),
    "experts in a dense model": ("qwen35", {"expert_count": 4}, "expert_count: expected 0.*found 4"),
    "no experts": ("qwen35moe", {"expert_count": 0}, "qwen35moe.expert_count.*found 0"),
    "more used than there are": ("qwen3next", {"expert_used_count": 7}, "expert_used_count.*1 .. 6, found 7"),
    "scaled shares": (
        "qwen35moe",
        {"expert_weights_scale": 2.5},
        "expert_weights_scale: expected 1.*found 2.5",
    ),
    "a narrow expert": (
        "qwen35moe",
        {"expert_feed_forward_length": 40},
        "expert_feed_forward_length.*multiple of 32",
    ),
    "a norm that is no flag": (
        "qwen35moe",
        {"expert_weights_norm": 1},
        "expert_weights_norm: expected true or false",
    ),
}


@pytest.mark.parametrize(("architecture", "changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_value_is_named(architecture: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArtifactError, match=message) as refusal:
        read(EVERY[architecture], **changes)
    assert refusal.value.file == "model.gguf"


@pytest.mark.parametrize("model", HYBRIDS.values(), ids=HYBRIDS)
def test_a_whole_file_has_every_tensor_that_is_read(model: TinyHybrid, tmp_path: Path) -> None:
    write_hybrid(tmp_path / "tiny.gguf", model)
    with GgufFile.open(tmp_path / "tiny.gguf") as file:
        numbers = read_hyperparameters(file.path, file.metadata, model.vocabulary)
        found = [tensor.name for tensor in check_tensors(file.path, numbers, file.tensors)]
        assert sorted(found) == sorted(file.tensors)


@pytest.mark.parametrize("model", EVERY.values(), ids=EVERY)
def test_a_missing_or_misshapen_tensor_is_named(model: TinyHybrid) -> None:
    numbers, good = read(model), described(model)
    for tensor in expected_tensors(numbers):
        if not tensor.required:
            continue
        name = re.escape(tensor.name)
        without = {other: found for other, found in good.items() if other != tensor.name}
        with pytest.raises(ArtifactError, match=f"tensor {name}: expected shape .*found no such tensor"):
            check_tensors("f", numbers, without)
        shape = good[tensor.name].shape
        wrong = good | {tensor.name: Described((*shape[:-1], shape[-1] + 1))}
        with pytest.raises(ArtifactError, match=f"tensor {name}: expected shape "):
            check_tensors("f", numbers, wrong)


def test_a_promised_prediction_block_that_is_not_there_is_named() -> None:
    model = EVERY["qwen35"]
    trunk = {name: found for name, found in described(model).items() if not name.startswith("blk.4.")}
    with pytest.raises(
        ArtifactError, match=r"nextn_predict_layers: expected prediction block blk.4 among"
    ) as refusal:
        check_tensors("model.gguf", read(model), trunk)
    assert refusal.value.file == "model.gguf"


def test_a_prediction_block_that_nobody_promised_is_refused() -> None:
    model = EVERY["qwen35"]
    unpromised = read(model, nextn_predict_layers=None, block_count=4)
    with pytest.raises(ArtifactError, match=r"tensor blk.4.*expected only tensors that a qwen35 graph reads"):
        check_tensors("f", unpromised, described(model))


def test_the_gate_of_the_shared_expert_may_be_a_vector_or_a_row() -> None:
    model = EVERY["qwen35moe"]
    name = "blk.0.ffn_gate_inp_shexp.weight"
    for shape in ((64,), (1, 64)):
        check_tensors("f", read(model), described(model) | {name: Described(shape)})


def test_taps_of_the_convolution_are_never_quantised() -> None:
    model = EVERY["qwen35"]
    quantised = {"blk.0.ssm_conv1d.weight": Described((model.channels, 4), TensorType.Q8_0)}
    with pytest.raises(ArtifactError, match=r"ssm_conv1d.weight: expected type F32.*found type Q8_0"):
        check_tensors("f", read(model), described(model) | quantised)


LIMITS = PassLimits(context=100, sequences=3, rows=16, logit_rows=8)


def test_states_are_stated_as_window_and_two() -> None:
    model = read(EVERY["qwen35"])
    for window in (0, 7):
        need = memory_need(model, replace(LIMITS, window=window), weight_bytes=5)
        assert need.states == 3 * (window + 2) * -(-model.state_floats * 4 // 4096) * 4096
        assert need.total == need.weights + need.cache + need.workspace + need.states
        assert f"recurrent states {need.states / MIB:.0f} MiB" in need.describe()


def test_only_attention_keeps_positions() -> None:
    model = read(EVERY["qwen35"])
    assert kept_positions(model, LIMITS) == (0, 0, 0, 112, 112)
    need = memory_need(model, LIMITS, weight_bytes=0)
    assert need.cache == 2 * 112 * (2 * 2 * 32 * 2) * 3


def test_a_model_without_states_says_nothing_of_them() -> None:
    need = memory_need(read(EVERY["qwen35"], full_attention_interval=1), LIMITS, weight_bytes=0)
    assert need.states == 0
    assert "recurrent" not in need.describe()
