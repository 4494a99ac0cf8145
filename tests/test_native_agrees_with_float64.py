"""Native results against plain float64 arithmetic on the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from native_graphs import TYPES, evaluate, ids, matrix, rows_of, values_of, vector, vector_values
from verispec import _native


def rounded(x: np.ndarray) -> np.ndarray:
    """Activations as a quantised weight meets them."""
    blocks = x.reshape(x.shape[0], -1, 32)
    amax = np.abs(blocks).max(axis=2, keepdims=True)
    values = np.rint(blocks * (np.float32(127) / amax)).astype(np.float64)
    return (values * (amax / np.float32(127)).astype(np.float64)).reshape(x.shape)


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    return bool(np.abs(found - expected).max() <= tolerance * np.abs(expected).max())


@pytest.mark.parametrize("kind", TYPES)
def test_linear(kind: str) -> None:
    weights, bias = [matrix(kind, 50, 512)], vector(50)
    x = rows_of(6, 512)
    (found,) = evaluate(lambda program, ins: program.linear(ins[0], weights, [bias]), [x])
    inputs = x.astype(np.float64) if kind in ("F32", "F16", "BF16") else rounded(x)
    assert close(found, inputs @ values_of(kind, 50, 512).T + vector_values(50), 3e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_embedding(kind: str) -> None:
    table = matrix(kind, 50, 256)
    (found,) = evaluate(lambda p, _: [p.embedding(table, 2.5)], [], tokens=ids(range(50)), rows=50)
    assert close(found, values_of(kind, 50, 256) * 2.5, 1e-6)


def test_row_operations() -> None:
    a, b = rows_of(5, 96, 1), rows_of(5, 96, 2)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    silu = wide_a / (1 + np.exp(-wide_a))
    gelu = wide_a / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide_a + 0.044715 * wide_a**3)))
    heads = wide_a.reshape(5, 4, 24)
    normed = heads / np.sqrt((heads**2).mean(axis=2, keepdims=True) + 1e-5) * vector_values(24)
    expected = [wide_a + wide_b, wide_a * 0.3, 2 * np.tanh(wide_a / 2), silu * wide_b, gelu * wide_b]
    found = evaluate(
        lambda p, x: [
            p.add(x[0], x[1]),
            p.scale(x[0], 0.3),
            p.softcap(x[0], 2.0),
            p.swiglu(x[0], x[1]),
            p.geglu(x[0], x[1]),
            p.rms_norm(x[0], vector(24), 1e-5, 4),
        ],
        [a, b],
    )
    for result, wanted in zip(found, [*expected, normed.reshape(5, 96)], strict=True):
        assert close(result, wanted, 2e-6)


def expected_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, window: int, softcap: float
) -> np.ndarray:
    """One sequence: q [rows, heads, dim], k and v [rows, kv_heads, dim], scale 0.2."""
    k, v = (x.astype(np.float16).astype(np.float64) for x in (k, v))
    q = q.astype(np.float64) * 0.2
    shared = q.shape[1] // k.shape[1]
    out = np.empty(q.shape)
    for row in range(q.shape[0]):
        first = max(0, row - window + 1) if window else 0
        for head in range(q.shape[1]):
            scores = k[first : row + 1, head // shared] @ q[row, head]
            scores = softcap * np.tanh(scores / softcap) if softcap else scores
            weights = np.exp(scores - scores.max())
            out[row, head] = weights @ v[first : row + 1, head // shared] / weights.sum()
    return out


@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (0, 5.0), (33, 0.0), (1, 0.0)])
def test_attention(window: int, softcap: float) -> None:
    heads, kv_heads, dim, rows = 4, 2, 24, 150
    q, k, v = (rows_of(rows, n * dim, seed) for seed, n in enumerate((heads, kv_heads, kv_heads)))
    cache = _native.KvCache(1, 256, [(kv_heads, dim, 256)])
    (found,) = evaluate(
        lambda p, x: [p.attention(x[0], x[1], x[2], cache, 0, heads, 0.2, window, softcap)], [q, k, v]
    )
    expected = expected_attention(
        q.reshape(rows, heads, dim),
        k.reshape(rows, kv_heads, dim),
        v.reshape(rows, kv_heads, dim),
        window,
        softcap,
    )
    assert close(found.reshape(rows, heads, dim), expected, 1e-5)
