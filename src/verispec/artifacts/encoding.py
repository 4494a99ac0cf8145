"""Values to stored bytes and back, for every tensor type: the ``gguf`` package's code where it has any, else ours.

That package works through rows in little groups; everything is one row here, so that it does all of a chunk at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from verispec.artifacts.k_quants import K_ENCODERS
from verispec.artifacts.tensor_types import TensorType

CHUNK_ELEMENTS = 1 << 16
"""Elements encoded at a time: their working set then stays in the cache. A multiple of every block."""

Run = Callable[[Callable[[int], tuple[float, float]], Iterable[int]], Iterable[tuple[float, float]]]


def decode(stored: NDArray[np.uint8], kind: TensorType) -> NDArray[np.float32]:
    """Float32 values ``[elements]`` of stored bytes ``[nbytes]``, whole blocks."""
    values: NDArray[Any] = gguf.dequantize(stored.reshape(1, -1), GGMLQuantizationType(kind.id))
    return values.reshape(-1).astype(np.float32, copy=False)


def encode(values: NDArray[np.float32], kind: TensorType) -> NDArray[np.uint8]:
    """Stored bytes ``[nbytes]`` of float32 values ``[elements]``, whole blocks. Equal input gives equal bytes."""
    if kind in K_ENCODERS:
        stored: NDArray[Any] = K_ENCODERS[kind](values.reshape(-1, kind.block_size))
    else:
        stored = gguf.quantize(values.reshape(1, -1), GGMLQuantizationType(kind.id))
    return stored.reshape(-1).view(np.uint8)


def reencode(
    stored: NDArray[np.uint8], before: TensorType, after: TensorType, run: Run = map
) -> tuple[NDArray[np.uint8], float, float]:
    """The same tensor in another type, chunk by chunk; ``run`` may be an executor's ``map``.

    Also the sum of squared differences and of squared values, from which its error follows.
    """
    if before is after:
        return stored, 0.0, 0.0
    elements = stored.size // before.block_bytes * before.block_size
    result = np.empty(elements // after.block_size * after.block_bytes, np.uint8)

    def chunk(start: int) -> tuple[float, float]:
        end = min(start + CHUNK_ELEMENTS, elements)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what does not fit makes the error infinite or no number
            values = decode(stored[byte_range(before, start, end)], before)
            encoded = encode(values, after)
            result[byte_range(after, start, end)] = encoded
            difference = decode(encoded, after) - values
            return float(np.dot(difference, difference)), float(np.dot(values, values))

    sums = list(run(chunk, range(0, elements, CHUNK_ELEMENTS)))
    return result, sum(error for error, _ in sums), sum(energy for _, energy in sums)


def byte_range(kind: TensorType, start: int, end: int) -> slice:
    """Where elements ``start`` to ``end``, both at blocks' ends, are stored."""
    size, bytes_each = kind.block_size, kind.block_bytes
    return slice(start // size * bytes_each, end // size * bytes_each)
