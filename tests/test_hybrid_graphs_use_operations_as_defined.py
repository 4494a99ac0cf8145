"""The reference's operations of hybrid models against their formulas, written out element by element in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verispec.ops.contract import AttentionSpec, ConvolutionSpec, DeltaSpec
from verispec.ops.reference import Cache, PassInputs, ReferenceOperations
from verispec.ops.reference_arrays import Array, Matrix, rounded_activations

RANDOM = np.random.default_rng(17)


def rows_of(rows: int, width: int) -> Array:
    return RANDOM.normal(0, 1.5, (rows, width)).astype(np.float32)


def plain(values: Array) -> Matrix:
    return Matrix(values, quantised=False)


def operations(
    rows: int, start: int = 0, slot: int = 0, cache: Cache | None = None, **weights: Matrix
) -> ReferenceOperations:
    inputs = PassInputs(range(rows), range(start, start + rows), [slot] * rows, range(rows))
    return ReferenceOperations(weights, cache or Cache(), inputs)


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def convolved(x: Array, taps: Array, row: int, channel: int) -> float:
    kernel = taps.shape[1]
    total = 0.0
    for tap in range(kernel):
        position = row - (kernel - 1) + tap
        if position >= 0:
            total += float(taps[channel, tap]) * float(x[position, channel])
    return total * logistic(total)


CONVOLUTION = ConvolutionSpec(layer=2, channels=5, kernel=4)


def test_the_convolution_sees_the_last_inputs_of_its_channel() -> None:
    x, taps = rows_of(6, 5), rows_of(5, 4)
    found = operations(6, taps=plain(taps)).convolution(x, "taps", CONVOLUTION)
    expected = [[convolved(x, taps, row, channel) for channel in range(5)] for row in range(6)]
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_the_convolution_goes_on_where_a_pass_ended_and_back_where_it_was() -> None:
    x, taps, cache = rows_of(9, 5), plain(rows_of(5, 4)), Cache()
    whole = operations(9, taps=taps).convolution(x, "taps", CONVOLUTION)
    operations(4, cache=cache, taps=taps).convolution(x[:4], "taps", CONVOLUTION)
    operations(3, start=4, cache=cache, taps=taps).convolution(rows_of(3, 5), "taps", CONVOLUTION)
    rest = operations(5, start=4, cache=cache, taps=taps).convolution(x[4:], "taps", CONVOLUTION)
    assert np.array_equal(rest, whole[4:])
    other = operations(2, slot=1, cache=cache, taps=taps).convolution(x[:2], "taps", CONVOLUTION)
    assert np.array_equal(other, whole[:2])


DELTA = DeltaSpec(layer=1, key_heads=2, value_heads=6, key_dim=4, value_dim=3, epsilon=1e-6)
DELTA_WEIGHTS = {
    "decay": plain(-np.exp(RANDOM.normal(0, 1, (1, 6))).astype(np.float32)),
    "bias": plain(RANDOM.normal(0, 1, (1, 6)).astype(np.float32)),
}


def delta_inputs(rows: int) -> tuple[Array, Array, Array]:
    return rows_of(rows, 2 * 2 * 4 + 6 * 3), rows_of(rows, 6), rows_of(rows, 6)


def restated_delta(qkv: Array, beta: Array, alpha: Array, head: int, key_head: int) -> np.ndarray:
    """Results of one value head, number by number."""
    decay, bias = (float(DELTA_WEIGHTS[name].values[0, head]) for name in ("decay", "bias"))
    state = np.zeros((4, 3))
    results = []
    for row in qkv.astype(np.float64):
        q, k = row[4 * key_head : 4 * key_head + 4], row[8 + 4 * key_head : 12 + 4 * key_head]
        v = row[16 + 3 * head : 19 + 3 * head]
        q = q / math.sqrt(float(q @ q) + 1e-6) / math.sqrt(4)
        k = k / math.sqrt(float(k @ k) + 1e-6)
        strength = logistic(float(beta[len(results), head]))
        kept = math.exp(decay * math.log1p(math.exp(float(alpha[len(results), head]) + bias)))
        state = state * kept
        for column in range(3):
            missing = v[column] - sum(state[i, column] * k[i] for i in range(4))
            state[:, column] += k * strength * missing
        results.append(state.T @ q)
    return np.stack(results)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_delta_rule_corrects_what_its_state_recalls(grouped: bool) -> None:
    spec = DeltaSpec(1, 2, 6, 4, 3, 1e-6, grouped)
    qkv, beta, alpha = delta_inputs(7)
    found = operations(7, **DELTA_WEIGHTS).delta_rule(qkv, beta, alpha, "decay", "bias", spec)
    for head in range(6):
        expected = restated_delta(qkv, beta, alpha, head, head // 3 if grouped else head % 2)
        assert np.allclose(found[:, 3 * head : 3 * head + 3], expected, rtol=1e-5, atol=1e-6)


def test_the_delta_rule_goes_on_where_a_pass_ended_and_back_where_it_was() -> None:
    (qkv, beta, alpha), cache = delta_inputs(8), Cache()

    def run(begin: int, end: int, values: Array = qkv) -> Array:
        ops = operations(end - begin, start=begin, cache=cache, **DELTA_WEIGHTS)
        part = slice(begin, end)
        return ops.delta_rule(values[part], beta[part], alpha[part], "decay", "bias", DELTA)

    whole = operations(8, **DELTA_WEIGHTS).delta_rule(qkv, beta, alpha, "decay", "bias", DELTA)
    run(0, 5)
    run(3, 6, delta_inputs(8)[0])
    assert np.array_equal(run(3, 8), whole[3:])
    assert np.array_equal(run(0, 2), whole[:2])


def test_a_gate_opens_its_columns() -> None:
    x, gate = rows_of(3, 8), rows_of(3, 2)
    found = operations(3).sigmoid_gate(x, gate)
    for row in range(3):
        for column in range(8):
            expected = float(x[row, column]) * logistic(float(gate[row, column // 4]))
            assert math.isclose(found[row, column], expected, rel_tol=1e-6)


def test_split_cuts_every_group_and_concat_joins() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 12)
    first, second = operations(2).split(x, (1, 3), groups=3)
    assert first.tolist() == [[0, 4, 8], [12, 16, 20]]
    assert second[0].tolist() == [1, 2, 3, 5, 6, 7, 9, 10, 11]
    assert np.array_equal(operations(2).concat(operations(2).split(x, (5, 7))), x)


def test_experts_are_the_greatest_and_the_lowest_id_first_on_a_tie() -> None:
    logits = np.asarray([[0.5, 2.0, 2.0, -1.0], [3.0, 0.0, 1.0, 3.0]], np.float32)
    ids, shares = operations(2).route(logits, 3, normalise=False)
    assert ids.tolist() == [[1, 2, 0], [0, 3, 2]]
    total = sum(math.exp(value) for value in logits[0].tolist())
    expected = [math.exp(2.0) / total, math.exp(2.0) / total, math.exp(0.5) / total]
    assert np.allclose(shares[0], expected, rtol=1e-6)
    _, normalised = operations(2).route(logits, 3, normalise=True)
    assert np.allclose(normalised.sum(axis=1), 1.0)
    assert np.allclose(normalised[0], np.asarray(expected) / sum(expected), rtol=1e-6)


def test_experts_multiply_the_row_or_their_own_slot() -> None:
    weight, ids = RANDOM.normal(0, 1, (3, 4, 8)).astype(np.float32), np.asarray([[2, 0], [1, 2]], np.float32)
    x, slots = rows_of(2, 8), rows_of(2, 16)
    ops = operations(2, experts=plain(weight))
    shared, own = ops.expert_linear(x, ids, "experts"), ops.expert_linear(slots, ids, "experts")
    for row in range(2):
        for slot in range(2):
            expert, columns = int(ids[row, slot]), slice(4 * slot, 4 * slot + 4)
            assert np.allclose(shared[row, columns], weight[expert] @ x[row], rtol=1e-5, atol=1e-6)
            part = slots[row, 8 * slot : 8 * slot + 8]
            assert np.allclose(own[row, columns], weight[expert] @ part, rtol=1e-5, atol=1e-6)


def test_quantised_experts_meet_rounded_activations() -> None:
    weight = RANDOM.normal(0, 1, (2, 5, 64)).astype(np.float32)
    x, ids = rows_of(3, 64), np.asarray([[0], [1], [1]], np.float32)
    found = operations(3, experts=Matrix(weight, quantised=True)).expert_linear(x, ids, "experts")
    expected = [weight[int(ids[row, 0])] @ rounded_activations(x)[row] for row in range(3)]
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_slots_are_summed_by_their_shares() -> None:
    x, shares = rows_of(2, 12), rows_of(2, 3)
    expected = [
        sum(shares[row, slot] * x[row, 4 * slot : 4 * slot + 4] for slot in range(3)) for row in range(2)
    ]
    assert np.allclose(operations(2).expert_sum(x, shares), expected, rtol=1e-5, atol=1e-6)


def test_a_cache_that_begins_later_shows_nothing_before() -> None:
    """The row at ``first`` sees itself alone, so its result is its own value."""
    spec = AttentionSpec(layer=0, heads=1, kv_heads=1, head_dim=4, scale=0.5, first=3)
    q, k, v = (rows_of(2, 4) for _ in range(3))
    found = operations(2, start=3).attention(q, k, v, spec)
    assert np.array_equal(found[0], v[0].astype(np.float16).astype(np.float32))


def test_hidden_states_come_with_the_pass() -> None:
    given = rows_of(2, 6)
    ops = ReferenceOperations({}, Cache(), PassInputs([1, 2], [5, 6], [0, 0], [1], given))
    assert np.array_equal(ops.hidden_input(6), given)
    with pytest.raises(ValueError, match=r"expected shape \(2, 8\), found shape \(2, 6\)"):
        ops.hidden_input(8)
    with pytest.raises(ValueError, match="found nothing"):
        operations(2).hidden_input(6)
