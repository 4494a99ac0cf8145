"""Our encoders are as close to the values as llama.cpp's, and nothing odd in a block makes them fail."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from values_to_quantise import distributions
from verispec.artifacts.encoding import decode, encode, reencode
from verispec.artifacts.tensor_types import TensorType

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden_quantisation.json").read_text())[
    "relative_errors"
]
K_QUANTS = (TensorType.Q4_K, TensorType.Q5_K, TensorType.Q6_K)
ENCODED = (*K_QUANTS, TensorType.Q8_0, TensorType.Q4_0, TensorType.Q4_1, TensorType.Q5_0, TensorType.Q5_1)
VALUES = distributions()


@pytest.mark.parametrize("kind", ENCODED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", VALUES)
def test_errors_are_those_of_llama_cpp(name: str, kind: TensorType) -> None:
    stored = VALUES[name].reshape(-1).view(np.uint8)
    _, error, energy = reencode(stored, TensorType.F32, kind)
    assert np.sqrt(error / energy) <= 1.01 * GOLDEN[name][kind.name]


@pytest.mark.parametrize("kind", K_QUANTS, ids=lambda kind: kind.name)
def test_the_gguf_package_reads_what_we_write(kind: TensorType) -> None:
    values = VALUES["normal"].reshape(-1)
    stored = encode(values, kind).reshape(-1, kind.block_bytes)
    read = gguf.dequantize(stored, GGMLQuantizationType[kind.name]).reshape(-1)
    relative = np.sqrt(np.sum((read - values) ** 2) / np.sum(values**2))
    assert relative < {"Q4_K": 0.08, "Q5_K": 0.04, "Q6_K": 0.02}[kind.name]


@pytest.mark.parametrize("kind", K_QUANTS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shift", [0, 1, 128, 255])
def test_every_element_is_stored_in_its_own_place(kind: TensorType, shift: int) -> None:
    values = np.roll(np.linspace(-1, 1, 256, dtype=np.float32), shift)
    read = decode(encode(values, kind), kind)
    assert np.abs(read - values).max() < 0.1


ODD_BLOCKS: dict[str, NDArray[np.float64]] = {
    "zeros": np.zeros(256),
    "one spike": np.eye(1, 256, 200)[0],
    "one negative spike": -np.eye(1, 256, 3)[0],
    "constant": np.full(256, 0.37),
    "negative constant": np.full(256, -0.37),
    "zero groups between others": np.repeat([0, 1, 0, -1, 0, 2, 0, -2], 32) * np.tile([1, 0.5], 128),
    "too small for float16": np.full(256, 1e-30),
    "wide range": np.logspace(-6, 3, 256) * np.tile([1, -1], 128),
}


@pytest.mark.parametrize("kind", K_QUANTS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", ODD_BLOCKS)
def test_odd_blocks(name: str, kind: TensorType) -> None:
    values = ODD_BLOCKS[name].astype(np.float32)
    read = decode(encode(values, kind), kind)
    assert np.abs(read - values).max() <= 0.07 * np.abs(values).max() + 1e-30
    if name == "zeros":
        assert not read.any()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-2, 1.0, 1e3]), kind=st.sampled_from(K_QUANTS)
)
def test_a_block_is_never_worse_than_its_coarsest_step(seed: int, scale: float, kind: TensorType) -> None:
    random = np.random.default_rng(seed)
    values = (random.standard_t(3, 256) * scale).astype(np.float32)
    read = decode(encode(values, kind), kind)
    codes = {"Q4_K": 15, "Q5_K": 31, "Q6_K": 63}[kind.name]
    assert np.abs(read - values).max() <= 2 * np.ptp(values) / codes


@pytest.mark.parametrize("kind", K_QUANTS, ids=lambda kind: kind.name)
def test_chunks_and_threads_change_no_byte(kind: TensorType) -> None:
    from concurrent.futures import ThreadPoolExecutor

    values = np.tile(VALUES["normal"], (9, 1)).reshape(-1)  # more than one chunk
    stored = values.view(np.uint8)
    alone, *sums = reencode(stored, TensorType.F32, kind)
    with ThreadPoolExecutor(3) as pool:
        together, *same = reencode(stored, TensorType.F32, kind, pool.map)
    assert np.array_equal(alone, together)
    assert sums == same
    assert np.array_equal(alone[: alone.size // 9], encode(VALUES["normal"].reshape(-1), kind))
