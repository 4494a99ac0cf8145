"""Small graphs over random weights, recorded into native programs and run for tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, dequantize, quantize

from verispec import _native

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int32]
Graph = Callable[[_native.Program, list[int]], Sequence[int]]
"""Records operations on the input buffers and returns the buffers to compare."""

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
BLOCK_BYTES = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
SCALE_PLACES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
POSITIONS = 256


def block_of(kind: str) -> int:
    """Columns that a row of a matrix of type ``kind`` must be a multiple of."""
    return 256 if kind in BLOCK_BYTES else 1 if kind in ("F32", "F16", "BF16") else 32


@functools.cache
def pool(threads: int) -> _native.ThreadPool:
    return _native.ThreadPool(threads)


def matrix_bytes(kind: str, outputs: int, inputs: int, seed: int) -> npt.NDArray[np.uint8]:
    """Random weights as a GGUF file stores them, uint8 [outputs, bytes of a row]."""
    random = np.random.default_rng(seed)
    if kind not in BLOCK_BYTES:
        values = random.normal(0, 0.3, (outputs, inputs)).astype(np.float32)
        return quantize(values, GGMLQuantizationType[kind]).view(np.uint8).reshape(outputs, -1)
    blocks = random.integers(0, 256, (outputs, inputs // 256, BLOCK_BYTES[kind]), np.uint8)
    for place in SCALE_PLACES[kind]:
        scales = random.uniform(1e-4, 3e-3, blocks.shape[:2]).astype(np.float16)
        blocks[..., place : place + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(outputs, -1)


def pack(kind: str, stored: npt.NDArray[np.uint8], inputs: int) -> _native.Matrix:
    """A matrix from its file bytes."""
    outputs = stored.shape[0]
    weights = _native.Weights(_native.Weights.packed_size(kind, outputs, inputs))
    return weights.pack(kind, outputs, inputs, stored.reshape(-1), pool(1))


@functools.cache
def matrix(kind: str, outputs: int, inputs: int, seed: int = 0) -> _native.Matrix:
    return pack(kind, matrix_bytes(kind, outputs, inputs, seed), inputs)


def values_of(kind: str, outputs: int, inputs: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """What ``matrix`` holds, float64 [outputs, inputs], as the ``gguf`` package reads it."""
    stored = matrix_bytes(kind, outputs, inputs, seed)
    storage = {"F32": np.float32, "F16": np.float16}.get(kind, np.uint8)
    return dequantize(stored.view(storage), GGMLQuantizationType[kind]).astype(np.float64)


@functools.cache
def vector(width: int, seed: int = 0) -> _native.Vector:
    return _native.Vector(vector_values(width, seed))


def vector_values(width: int, seed: int = 0) -> Floats:
    return np.random.default_rng(1000 + seed).normal(1, 0.2, width).astype(np.float32)


def rows_of(rows: int, width: int, seed: int = 0) -> Floats:
    """Activations with the large and small magnitudes that real ones have."""
    random = np.random.default_rng(2000 + seed)
    return (random.normal(0, 1, (rows, width)) * np.exp(random.normal(0, 1.5, (rows, 1)))).astype(np.float32)


def ids(values: Sequence[int] | range) -> Ids:
    return np.asarray(values, np.int32)


def evaluate(
    graph: Graph,
    inputs: Sequence[Floats],
    *,
    threads: int = 1,
    isa: str | None = None,
    tokens: Ids | None = None,
    positions: Ids | None = None,
    slots: Ids | None = None,
    rows: int | None = None,
) -> list[Floats]:
    """What the graph's buffers hold after one run. Positions count from 0; tokens and slots are 0 by default."""
    rows = inputs[0].shape[0] if rows is None else rows
    program = _native.Program(pool(threads), _native.Workspace(), rows, 0, isa=isa)
    results = graph(program, [program.input(x.shape[1]) for x in inputs])
    for name, buffer in enumerate(results):
        program.tap(buffer, name)
    program.finish()
    zeros = np.zeros(rows, np.int32)
    program.run(
        zeros if tokens is None else tokens,
        ids(range(rows)) if positions is None else positions,
        zeros if slots is None else slots,
        ids([]),
        [np.ascontiguousarray(x) for x in inputs],
    )
    return [program.hidden(name).copy() for name in range(len(results))]


def same_bits(a: Floats, b: Floats) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()
