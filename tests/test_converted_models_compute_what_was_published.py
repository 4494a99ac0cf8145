"""A converted folder is the published model: its logits are those of transformers, for every family.

The golden logits were computed by transformers from the same weights (``benchmarks/golden_published.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_published import FAMILIES, HYBRIDS, WITH_EXPERTS, Published, write_published, write_tensors
from verispec.artifacts.convert import convert
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.model_file import open_model_file
from verispec.artifacts.tensor_types import TensorType
from verispec.engine.loading import load

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden_published.json").read_text())
TOLERANCE = 0.005
"""Logits are about 1; keys and values are rounded to float16 on the way."""


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    model = Published(family, tied=family in ("qwen2", "gemma3_text"))
    write_published(tmp_path / "published", model)
    convert(tmp_path / "published", tmp_path / "model.gguf")
    with load(tmp_path / "model.gguf", ctx=64, sequences=1, threads=2) as converted:
        found = converted.logits(GOLDEN["prompt"])
    with load(tmp_path / "published", ctx=64, sequences=1, threads=2) as folder:
        assert np.array_equal(folder.logits(GOLDEN["prompt"]), found), "the folder itself is the same model"
    expected = np.array(GOLDEN["logits"][family])
    assert np.abs(found - expected).max() < TOLERANCE
    assert found.argmax() == expected.argmax()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_and_its_file_are_the_same(family: str, tmp_path: Path) -> None:
    prediction = 1 if family in HYBRIDS else 0
    write_published(tmp_path / "published", Published(family, prediction), "BF16")
    convert(tmp_path / "published", tmp_path / "model.gguf")
    with open_model_file(tmp_path / "published") as folder, GgufFile.open(tmp_path / "model.gguf") as file:
        assert list(folder.tensors) == list(file.tensors)
        for name, tensor in folder.tensors.items():
            assert (tensor.shape, tensor.type) == (file.tensors[name].shape, file.tensors[name].type)
            assert np.array_equal(folder.data(name), file.data(name)), name
            folder.release(name)
        added = {key for key in file.metadata if key.startswith("verispec.derived_")}
        assert {key: value for key, value in file.metadata.items() if key not in added} == folder.metadata


def test_the_prediction_block_comes_along(tmp_path: Path) -> None:
    made = write_published(tmp_path, Published("qwen3_5_text", prediction=1))
    with open_model_file(tmp_path) as folder:
        assert folder.metadata["qwen35.block_count"] == 5
        assert folder.metadata["qwen35.nextn_predict_layers"] == 1
        expected = {
            "nextn.eh_proj.weight": made["mtp.fc.weight"],
            "nextn.enorm.weight": 1 + made["mtp.pre_fc_norm_embedding.weight"],
            "nextn.hnorm.weight": 1 + made["mtp.pre_fc_norm_hidden.weight"],
            "nextn.shared_head_norm.weight": 1 + made["mtp.norm.weight"],
            "attn_q.weight": made["mtp.layers.0.self_attn.q_proj.weight"],
            "post_attention_norm.weight": 1 + made["mtp.layers.0.post_attention_layernorm.weight"],
            "ffn_down.weight": made["mtp.layers.0.mlp.down_proj.weight"],
        }
        for name, values in expected.items():
            found = folder.data(f"blk.4.{name}").view(np.float32)
            assert np.array_equal(found, values.reshape(-1)), name
        assert not [name for name in folder.tensors if name.startswith("blk.4.ssm")]


@pytest.mark.parametrize("family", WITH_EXPERTS)
def test_fused_experts_are_the_same_experts(family: str, tmp_path: Path) -> None:
    one_by_one = write_published(tmp_path / "apart", Published(family))
    fused = dict(one_by_one)
    for layer in range(4):
        stem = f"model.layers.{layer}.mlp.experts"
        parts = {
            part: np.stack([fused.pop(f"{stem}.{expert}.{part}.weight") for expert in range(4)])
            for part in ("gate_proj", "up_proj", "down_proj")
        }
        fused[f"{stem}.gate_up_proj"] = np.concatenate([parts["gate_proj"], parts["up_proj"]], axis=1)
        fused[f"{stem}.down_proj"] = parts["down_proj"]
    write_published(tmp_path / "fused", Published(family))
    write_tensors(tmp_path / "fused", fused)
    with open_model_file(tmp_path / "apart") as apart, open_model_file(tmp_path / "fused") as together:
        assert apart.tensors.keys() == together.tensors.keys()
        for name in apart.tensors:
            assert np.array_equal(apart.data(name), together.data(name)), name


@pytest.mark.parametrize("kind", ["BF16", "F16", "F32"])
def test_matrices_keep_the_type_they_were_published_in(kind: str, tmp_path: Path) -> None:
    write_published(tmp_path / "published", Published("qwen3_5_text"), kind)
    convert(tmp_path / "published", tmp_path / "model.gguf")
    assert types_in(tmp_path / "model.gguf") == {"matrices": {kind}, "vectors": {"F32"}}


@pytest.mark.parametrize("kind", [TensorType.BF16, TensorType.F16, TensorType.F32])
def test_matrices_get_the_type_that_was_asked_for(kind: TensorType, tmp_path: Path) -> None:
    write_published(tmp_path / "published", Published("qwen3_5_text"), "BF16")
    convert(tmp_path / "published", tmp_path / "model.gguf", kind)
    assert types_in(tmp_path / "model.gguf") == {"matrices": {kind.name}, "vectors": {"F32"}}


def types_in(path: Path) -> dict[str, set[str]]:
    with GgufFile.open(path) as file:
        kept = {name: tensor for name, tensor in file.tensors.items() if is_small(name, tensor.shape)}
        return {
            "matrices": {tensor.type.name for name, tensor in file.tensors.items() if name not in kept},
            "vectors": {tensor.type.name for tensor in kept.values()},
        }


def is_small(name: str, shape: Any) -> bool:
    return len(shape) == 1 or "ssm_conv1d" in name


def test_shards_are_one_model(tmp_path: Path) -> None:
    write_published(tmp_path / "one", Published("qwen3_5_text"))
    write_published(tmp_path / "many", Published("qwen3_5_text"), shards=3)
    with open_model_file(tmp_path / "one") as one, open_model_file(tmp_path / "many") as many:
        assert list(one.tensors) == list(many.tensors)
        assert all(np.array_equal(one.data(name), many.data(name)) for name in one.tensors)


def test_a_multimodal_folder_gives_its_text_model(tmp_path: Path) -> None:
    write_published(tmp_path / "text", Published("qwen3_5_text"))
    made = write_published(tmp_path / "both", Published("qwen3_5_text", prefix="model.language_model."))
    write_tensors(
        tmp_path / "both", {**made, "model.visual.patch_embed.proj.weight": np.ones((4, 4), np.float32)}
    )
    inner = json.loads((tmp_path / "both" / "config.json").read_text())
    outer = {"model_type": "qwen3_5", "text_config": inner, "tie_word_embeddings": True}
    (tmp_path / "both" / "config.json").write_text(json.dumps(outer))
    with open_model_file(tmp_path / "text") as text, open_model_file(tmp_path / "both") as both:
        assert text.tensors.keys() == both.tensors.keys()
        names = {"general.name"}
        assert {k: v for k, v in text.metadata.items() if k not in names} == {
            k: v for k, v in both.metadata.items() if k not in names
        }


def test_the_file_names_its_parent(tmp_path: Path) -> None:
    write_published(tmp_path / "published", Published("qwen3_5_text"))
    derived = convert(tmp_path / "published", tmp_path / "model.gguf")
    manifest = json.loads((tmp_path / "model.gguf.manifest.json").read_text())
    with open_model_file(tmp_path / "published") as folder, GgufFile.open(tmp_path / "model.gguf") as file:
        assert file.metadata["verispec.derived_from"] == folder.sha256()
        assert manifest["parent"] == {"name": "published", "sha256": folder.sha256()}
        assert manifest["artifact"]["sha256"] == file.sha256()
    assert derived.manifest == manifest
