"""Encoders of the K-quants, in numpy: Q4_K, Q5_K and Q6_K, whose superblocks hold 256 elements.

Layouts are GGUF's (ggml project). A superblock has scales of its own for 8 or 16 groups, themselves stored as small
integers times one float16. Each group's scale is searched for: candidates around the one that covers its range, each
with the least-squares scale (and minimum) for the integers it rounds to, the one with the smallest weighted error wins.
After that the integers are chosen anew for the scales as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verispec.artifacts.tensor_types import TensorType

Floats = NDArray[np.float32]
Blocks = NDArray[np.uint8]

SUPERBLOCK = 256
GROUP_AFFINE, GROUP_SYMMETRIC = 32, 16
LARGEST_STORED_SCALE = 63  # 6 bits
SMALLEST_RANGE = 1e-15


def encode_q4_k(values: Floats) -> Blocks:
    """``values`` [superblocks, 256] as bytes [superblocks, 144]."""
    scales, header, codes = _encode_affine(values, 15, np.linspace(-1.0, 1.0, 21))
    pairs = codes.reshape(-1, 4, 2, GROUP_AFFINE)
    nibbles = pairs[:, :, 0] | pairs[:, :, 1] << 4
    return np.concatenate([scales, header, nibbles.reshape(-1, 128)], axis=1)


def encode_q5_k(values: Floats) -> Blocks:
    """``values`` [superblocks, 256] as bytes [superblocks, 176]."""
    scales, header, codes = _encode_affine(values, 31, np.linspace(-0.5, 1.0, 16))
    low = (codes & 15).reshape(-1, 4, 2, GROUP_AFFINE)
    nibbles = low[:, :, 0] | low[:, :, 1] << 4
    group = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = np.bitwise_or.reduce((codes >> 4) << group, axis=1)
    return np.concatenate([scales, header, high, nibbles.reshape(-1, 128)], axis=1)


def encode_q6_k(values: Floats) -> Blocks:
    """``values`` [superblocks, 256] as bytes [superblocks, 210]."""
    groups = values.reshape(-1, 16, GROUP_SYMMETRIC)
    ideal = _symmetric_scales(groups, 32)
    peak = np.take_along_axis(ideal, np.abs(ideal).argmax(axis=1, keepdims=True), axis=1)
    factor = (peak / -128).astype(np.float16)
    whole = factor.astype(np.float32)
    stored = np.clip(np.rint(ideal * _reciprocal(whole)), -128, 127).astype(np.int8)
    step = (whole * stored)[:, :, None]
    codes = (np.clip(np.rint(groups * _reciprocal(step)), -32, 31) + 32).astype(np.uint8)
    quarters = codes.reshape(-1, 2, 4, 32)
    low = np.concatenate(
        [
            quarters[:, :, 0] & 15 | (quarters[:, :, 2] & 15) << 4,
            quarters[:, :, 1] & 15 | (quarters[:, :, 3] & 15) << 4,
        ],
        axis=2,
    )
    place = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    high = np.bitwise_or.reduce((quarters >> 4) << place, axis=2)
    parts = [low.reshape(-1, 128), high.reshape(-1, 64), stored.view(np.uint8), factor.view(np.uint8)]
    return np.concatenate(parts, axis=1)


def _encode_affine(
    values: Floats, largest: int, candidates: NDArray[np.float64]
) -> tuple[Blocks, Blocks, Blocks]:
    """For types whose elements are scale * code - minimum: two float16, packed scales, codes [superblocks, 8, 32]."""
    groups = values.reshape(-1, 8, GROUP_AFFINE)
    scales, minima = _affine_scales(groups, largest, candidates)
    factors = np.stack([scales.max(axis=1), minima.max(axis=1)], axis=1) / LARGEST_STORED_SCALE
    halves = factors.astype(np.float16)
    stored_scales, stored_minima = (
        np.clip(np.rint(part * _reciprocal(factors[:, index : index + 1])), 0, LARGEST_STORED_SCALE).astype(
            np.uint8
        )
        for index, part in enumerate((scales, minima))
    )
    wide = halves.astype(np.float32)
    step = (wide[:, :1] * stored_scales)[:, :, None]
    least = (wide[:, 1:] * stored_minima)[:, :, None]
    codes = np.clip(np.rint((groups + least) * _reciprocal(step)), 0, largest).astype(np.uint8)
    return halves.view(np.uint8), _pack_scales(stored_scales, stored_minima), codes


def _affine_scales(groups: Floats, largest: int, candidates: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """Scale and minimum (both >= 0) of each group [..., 32]: value = scale * code - minimum.

    Each candidate covers the range above the best minimum so far with a few codes more or fewer than there are. Errors
    are weighted by |value| + the group's root mean square, since large weights matter more.
    """
    values = _as_columns(groups)
    weights = np.abs(values) + np.sqrt(np.mean(values * values, axis=0))
    least, peak = np.minimum(values.min(axis=0), 0), values.max(axis=0)
    flat = peak - least < SMALLEST_RANGE
    sum_w, sum_x = weights.sum(axis=0), _dot(weights, values)
    codes, scratch = np.empty_like(values), np.empty_like(values)

    def choose_codes(low: Floats, steps: np.float32) -> None:
        span = peak - low
        np.multiply(values - low, steps / np.where(span < SMALLEST_RANGE, 1, span), out=codes)
        np.clip(np.rint(codes, out=codes), 0, largest, out=codes)

    def error_of(scale: Floats, low: Floats) -> Floats:
        np.multiply(codes, scale, out=scratch)
        difference = np.subtract(np.add(scratch, low, out=scratch), values, out=scratch)
        return _dot(weights * difference, difference)

    best_scale, best_low = (peak - least) / np.float32(largest), least
    choose_codes(best_low, np.float32(largest))
    best_error = error_of(best_scale, best_low)
    for offset in candidates.astype(np.float32):
        choose_codes(best_low, largest + offset)
        weighted = weights * codes
        sum_l, sum_ll, sum_xl = weighted.sum(axis=0), _dot(weighted, codes), _dot(weighted, values)
        determinant = sum_w * sum_ll - sum_l * sum_l
        solvable = determinant > 0
        divisor = np.where(solvable, determinant, 1)
        low = (sum_ll * sum_x - sum_l * sum_xl) / divisor
        through_zero = low > 0
        scale = (sum_w * sum_xl - sum_x * sum_l) / divisor
        scale = np.where(through_zero, sum_xl / np.where(sum_ll > 0, sum_ll, 1), scale)
        low = np.where(through_zero, 0, low)
        error = error_of(scale, low)
        better = solvable & (scale > 0) & (error < best_error)
        best_error = np.where(better, error, best_error)
        best_scale, best_low = np.where(better, scale, best_scale), np.where(better, low, best_low)
    shape = groups.shape[:-1]
    return np.where(flat, 0, best_scale).reshape(shape), -best_low.reshape(shape)


def _symmetric_scales(groups: Floats, largest: int) -> Floats:
    """Scale of each group [..., 16]: value = scale * code, code in -largest .. largest - 1.

    The scale is signed: the value of greatest magnitude takes the code of greatest magnitude, which is negative.
    Errors are weighted by the squared value.
    """
    values = _as_columns(groups)
    peak = np.take_along_axis(values, np.abs(values).argmax(axis=0)[None], axis=0)[0]
    flat = np.abs(peak) < SMALLEST_RANGE
    peak = np.where(flat, 1, peak)
    weights, codes = values * values, np.empty_like(values)
    best_scale: Floats = np.zeros_like(peak)
    best_gain = np.zeros_like(peak)
    for offset in range(-9, 10):
        np.multiply(values, -(largest + np.float32(0.1) * offset) / peak, out=codes)
        np.clip(np.rint(codes, out=codes), -largest, largest - 1, out=codes)
        weighted = weights * codes
        dot, norm = _dot(weighted, values), _dot(weighted, codes)
        norm = np.where(norm > 0, norm, 1)
        gain = dot * dot / norm  # what the fit takes off the weighted energy
        better = gain > best_gain
        best_gain = np.where(better, gain, best_gain)
        best_scale = np.where(better, dot / norm, best_scale)
    return np.where(flat, 0, best_scale).reshape(groups.shape[:-1])


def _as_columns(groups: Floats) -> Floats:
    """Groups [..., size] as the columns of [size, groups]: sums over a group then run along whole rows."""
    return np.ascontiguousarray(groups.reshape(-1, groups.shape[-1]).T)


def _dot(first: Floats, second: Floats) -> Floats:
    """The inner product of each column."""
    products: Floats = np.einsum("ij,ij->j", first, second)
    return products


def _pack_scales(scales: Blocks, minima: Blocks) -> Blocks:
    """Eight 6-bit scales and eight 6-bit minima in 12 bytes: the last four of each are spread over the first ones'."""
    first = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    second = minima[:, :4] | (minima[:, 4:] >> 4) << 6
    third = scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4
    return np.concatenate([first, second, third], axis=1)


def _reciprocal(values: NDArray[Any]) -> NDArray[Any]:
    """1 / value, and 0 for 0: a group of zeros."""
    reciprocal: NDArray[Any] = np.divide(1, values, out=np.zeros_like(values), where=values != 0)
    return reciprocal


K_ENCODERS: dict[TensorType, Callable[[Floats], Blocks]] = {
    TensorType.Q4_K: encode_q4_k,
    TensorType.Q5_K: encode_q5_k,
    TensorType.Q6_K: encode_q6_k,
}
