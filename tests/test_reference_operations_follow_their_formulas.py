"""Each reference operation against its formula, written out element by element in float64."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from verispec.ops.contract import AttentionSpec, RopeSpec
from verispec.ops.reference import Cache, PassInputs, ReferenceOperations
from verispec.ops.reference_arrays import Matrix, quantise_activations

RANDOM = np.random.default_rng(11)


def rows_of(rows: int, width: int) -> npt.NDArray[np.float32]:
    return RANDOM.normal(0, 2, (rows, width)).astype(np.float32)


def operations(rows: int = 3, start: int = 0, **weights: Matrix) -> ReferenceOperations:
    inputs = PassInputs(range(rows), range(start, start + rows), [0] * rows, [rows - 1, 0])
    return ReferenceOperations(weights, Cache(), inputs)


def test_activations_round_to_even_by_blocks_of_32() -> None:
    x = np.zeros((1, 64), np.float32)
    x[0, :4] = [127.0, -127.0, 0.5, 1.5]
    values, scales = quantise_activations(x)
    assert values[0, :4].tolist() == [127, -127, 0, 2]
    assert values[0, 4:].tolist() == [0] * 60
    assert scales.tolist() == [[1.0, 0.0]]


def test_embedding_is_the_tokens_row_scaled() -> None:
    table = rows_of(5, 8)
    found = operations(w=Matrix(table, False)).embedding("w", 2.5)
    assert np.array_equal(found, table[[0, 1, 2]] * np.float32(2.5))


def test_linear_is_a_sum_of_products_and_a_bias() -> None:
    x, weight, bias = rows_of(3, 32), rows_of(4, 32), rows_of(1, 4)
    ops = operations(w=Matrix(weight, False), b=Matrix(bias, False))
    with_bias, without = ops.linear(x, ["w", "w"], ["b", None])
    for row in range(3):
        for output in range(4):
            expected = math.fsum(float(a) * float(b) for a, b in zip(x[row], weight[output], strict=True))
            assert math.isclose(without[row, output], expected, rel_tol=1e-6)
            assert math.isclose(with_bias[row, output], expected + bias[0, output], rel_tol=1e-6)


def test_linear_of_a_quantised_weight_sees_rounded_activations() -> None:
    x, weight = rows_of(2, 64), rows_of(4, 64)
    (found,) = operations(w=Matrix(weight, True)).linear(x, ["w"])
    for row in range(2):
        rounded = []
        for block in x[row].reshape(2, 32):
            amax = max(abs(float(v)) for v in block)
            rounded += [round(float(v) * 127 / amax) * amax / 127 for v in block]
        for output in range(4):
            expected = math.fsum(a * float(b) for a, b in zip(rounded, weight[output], strict=True))
            assert math.isclose(found[row, output], expected, rel_tol=1e-5, abs_tol=1e-5)


def test_rms_norm_works_on_each_group() -> None:
    x, weight = rows_of(2, 12), rows_of(1, 4)
    found = operations(w=Matrix(weight, False)).rms_norm(x, "w", 1e-6, groups=3)
    for row in range(2):
        for group in range(3):
            part = [float(v) for v in x[row, 4 * group : 4 * group + 4]]
            size = math.sqrt(sum(v * v for v in part) / 4 + 1e-6)
            expected = [v / size * float(w) for v, w in zip(part, weight[0], strict=True)]
            assert np.allclose(found[row, 4 * group : 4 * group + 4], expected, rtol=1e-6)


def test_rope_turns_pairs_by_position() -> None:
    for interleaved in (True, False):
        spec = RopeSpec((1.0, 0.25), magnitude=1.5, interleaved=interleaved)
        x = rows_of(3, 10)  # two heads of five, the fifth element of which stays
        found = operations(start=7).rope(x, 2, spec)
        pairs = [(0, 1), (2, 3)] if interleaved else [(0, 2), (1, 3)]
        for row in range(3):
            for head in (0, 5):
                for (first, second), frequency in zip(pairs, (1.0, 0.25), strict=True):
                    turn = complex(math.cos((7 + row) * frequency), math.sin((7 + row) * frequency)) * 1.5
                    expected = complex(x[row, head + first], x[row, head + second]) * turn
                    assert math.isclose(found[row, head + first], expected.real, abs_tol=1e-5)
                    assert math.isclose(found[row, head + second], expected.imag, abs_tol=1e-5)
                assert found[row, head + 4] == x[row, head + 4]


def test_attention_is_a_softmax_over_the_visible_keys() -> None:
    for window, softcap in ((0, 0.0), (4, 0.0), (3, 5.0)):
        spec = AttentionSpec(0, heads=4, kv_heads=2, head_dim=3, scale=0.5, window=window, softcap=softcap)
        rows = 7
        q, k, v = rows_of(rows, 12), rows_of(rows, 6), rows_of(rows, 6)
        found = operations(rows).attention(q, k, v, spec)
        keys, values = k.astype(np.float16).astype(float), v.astype(np.float16).astype(float)
        for row in range(rows):
            seen = [p for p in range(row + 1) if not window or row - p < window]
            for head in range(4):
                shared = 3 * (head // 2)
                query = [float(a) * 0.5 for a in q[row, 3 * head : 3 * head + 3]]
                scores = [sum(query[i] * keys[p, shared + i] for i in range(3)) for p in seen]
                if softcap:
                    scores = [softcap * math.tanh(score / softcap) for score in scores]
                weights = [math.exp(score) for score in scores]
                for i in range(3):
                    mixed = sum(w * values[p, shared + i] for w, p in zip(weights, seen, strict=True))
                    assert math.isclose(found[row, 3 * head + i], mixed / sum(weights), abs_tol=1e-5)


def test_activations_gate() -> None:
    gate, up = rows_of(2, 16), rows_of(2, 16)
    swiglu, geglu = operations().swiglu(gate, up), operations().geglu(gate, up)
    for g, u, silu, gelu in zip(gate.flat, up.flat, swiglu.flat, geglu.flat, strict=True):
        g, u = float(g), float(u)
        assert math.isclose(silu, g / (1 + math.exp(-g)) * u, rel_tol=1e-6)
        inner = math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)
        assert math.isclose(gelu, g / 2 * (1 + math.tanh(inner)) * u, rel_tol=1e-5, abs_tol=1e-6)


def test_sums_scales_and_selection() -> None:
    a, b = rows_of(3, 4), rows_of(3, 4)
    ops = operations()
    assert np.array_equal(ops.add(a, b), a + b)
    assert np.array_equal(ops.scale(a, 1 / 3), a * np.float32(1 / 3))
    assert np.array_equal(ops.select_outputs(a), a[[2, 0]])
    ops.tap(a, 5)
    assert np.array_equal(ops.hidden[5], a)


def test_the_head_takes_the_greatest_before_the_soft_cap() -> None:
    """At 1000 and 1001 the capped logits are the same float32; the token is still the greater one's."""
    weight = np.array([[1000.0], [1001.0], [-3.0]], np.float32)
    ops = operations(w=Matrix(weight, False))
    ops.output_head(np.ones((1, 1), np.float32), "w", softcap=30.0)
    assert ops.argmax == [1]
    assert ops.logits is not None
    assert ops.logits[0, 0] == ops.logits[0, 1] == np.float32(30.0)
    assert math.isclose(ops.logits[0, 2], 30 * math.tanh(-0.1), rel_tol=1e-6)


def test_the_lowest_token_wins_a_tie() -> None:
    weight = np.array([[1.0], [2.0], [2.0]], np.float32)
    ops = operations(w=Matrix(weight, False))
    ops.output_head(np.ones((2, 1), np.float32), "w")
    assert ops.argmax == [1, 1]
