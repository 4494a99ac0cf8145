"""The Q8_0 file for measurements keeps metadata and values, and says that it is derived."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from benchmarks.make_q8_0 import q8_0_of
from gguf import GGMLQuantizationType, dequantize

from tiny_llama import tiny_llama
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.recipe import load_recipe
from verispec.artifacts.resolve import resolve_model
from verispec.artifacts.store import Store
from verispec.artifacts.tensor_types import TensorType


def values(file: GgufFile, name: str) -> np.ndarray:
    tensor = file.tensors[name]
    rows = file.data(name).reshape(*tensor.shape[:-1], -1)
    return dequantize(rows, GGMLQuantizationType[tensor.type.name])


def test_q8_0_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERISPEC_CACHE", str(tmp_path / "cache"))
    source_path = tmp_path / "tiny.gguf"
    source_path.write_bytes(tiny_llama())
    path = q8_0_of(str(source_path))
    assert q8_0_of(str(source_path)) == path, "kept, not made again"
    assert resolve_model("tiny-q8_0", Store()).path == path
    with GgufFile.open(source_path) as source, GgufFile.open(path) as derived:
        added = {
            "general.file_type": 7,
            "verispec.derived_from": hashlib.sha256(tiny_llama()).hexdigest(),
            "verispec.derived_recipe": "q8",
            "verispec.derived_recipe_sha256": load_recipe("q8").sha256,
        }
        assert derived.metadata == {**source.metadata, **added}
        assert derived.tensors.keys() == source.tensors.keys()
        for name, tensor in derived.tensors.items():
            assert tensor.shape == source.tensors[name].shape
            assert tensor.type is (TensorType.F32 if len(tensor.shape) == 1 else TensorType.Q8_0)
            before, after = values(source, name), values(derived, name)
            step = np.abs(before.reshape(-1, 32)).max(axis=1, keepdims=True) / 127
            assert (np.abs(after - before).reshape(-1, 32) <= 0.55 * step).all()  # 0.05 for the f16 scale
