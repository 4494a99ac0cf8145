"""Experts: C1 and C3 for routing and for layers whose weights differ from row to row, and agreement with float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize
from hypothesis import given, settings
from hypothesis import strategies as st

from native_graphs import (
    TYPES,
    Floats,
    Graph,
    block_of,
    evaluate,
    ids,
    matrix_bytes,
    pack,
    pool,
    rows_of,
    same_bits,
)
from verispec import _native


def packed(kind: str, experts: int, outputs: int, inputs: int, seed: int = 0) -> _native.Experts:
    stored = matrix_bytes(kind, experts * outputs, inputs, seed)
    weights = _native.Weights(experts * _native.Weights.packed_size(kind, outputs, inputs))
    return weights.pack_experts(kind, experts, outputs, inputs, stored.reshape(-1), pool(2))


def values(kind: str, experts: int, outputs: int, inputs: int, seed: int = 0) -> np.ndarray:
    stored = matrix_bytes(kind, experts * outputs, inputs, seed)
    storage = {"F32": np.float32, "F16": np.float16}.get(kind, np.uint8)
    wide = dequantize(stored.view(storage), GGMLQuantizationType[kind]).astype(np.float64)
    return wide.reshape(experts, outputs, inputs)


def mixture(kind: str, experts: int, used: int, width: int, inner: int) -> Graph:
    """The feed-forward of a mixture: routing, gated experts, their sum."""
    gate, up = (packed(kind, experts, inner, width, seed) for seed in (0, 1))
    down = packed(kind, experts, width, inner, 2)

    def graph(program: _native.Program, x: list[int]) -> list[int]:
        chosen, shares = program.route(x[1], used, True)
        opened = program.swiglu(
            program.expert_linear(x[0], chosen, gate), program.expert_linear(x[0], chosen, up)
        )
        closed = program.expert_linear(opened, chosen, down)
        return [chosen, shares, closed, program.expert_sum(closed, shares)]

    return graph


def crowded_logits(rows: int, experts: int) -> Floats:
    """Rows that mostly want the same few experts, so that some have many rows, some one and most none."""
    logits = rows_of(rows, experts, 5)
    logits[:, :3] += 4
    return logits


def assert_rows_alone_agree(graph: Graph, inputs: list[Floats], threads: int, isa: str | None) -> None:
    together = evaluate(graph, inputs, threads=threads)
    for row in range(inputs[0].shape[0]):
        alone = evaluate(graph, [x[row : row + 1] for x in inputs], positions=ids([row]), isa=isa)
        for several, one in zip(together, alone, strict=True):
            assert same_bits(several[row : row + 1], one), f"row {row}"


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_over_rows_threads_and_instruction_sets(kind: str) -> None:
    inner = max(40 // block_of(kind), 1) * block_of(kind)
    graph = mixture(kind, 6, 2, 256, inner)
    for index, rows in enumerate((1, 3, 20)):
        inputs = [rows_of(rows, 256), crowded_logits(rows, 6)]
        isas = _native.available_isas()
        assert_rows_alone_agree(graph, inputs, 1 + index, isas[(index + 1) % len(isas)])


@settings(max_examples=25, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["F16", "Q8_0", "Q4_1"]))
def test_any_shape(data: st.DataObject, kind: str) -> None:
    draw = lambda least, most: data.draw(st.integers(least, most))  # noqa: E731
    experts, width, inner, rows = draw(1, 20), 32 * draw(1, 3), 32 * draw(1, 3), draw(1, 24)
    graph = mixture(kind, experts, draw(1, min(experts, 5)), width, inner)
    inputs = [rows_of(rows, width), crowded_logits(rows, experts)]
    assert_rows_alone_agree(graph, inputs, draw(1, 4), _native.available_isas()[-1])


@pytest.mark.parametrize("kind", ["F32", "Q4_K"])
def test_more_rows_than_an_expert_takes_at_once(kind: str) -> None:
    graph = mixture(kind, 4, 1, 256, 256)
    logits = np.zeros((70, 4), np.float32)
    logits[:, 2] = 1
    x = rows_of(70, 256)
    together = evaluate(graph, [x, logits], threads=2)
    for part in (slice(0, 1), slice(63, 66), slice(69, 70)):
        several = evaluate(graph, [x[part], logits[part]])
        for whole, some in zip(together, several, strict=True):
            assert same_bits(np.ascontiguousarray(whole[part]), some)


@pytest.mark.parametrize("outputs", [48, 41])
@pytest.mark.parametrize("own", [False, True])
def test_experts_agree_with_float64(outputs: int, own: bool) -> None:
    """Also where the outputs of an expert do not fill their last group of sixteen."""
    used, experts, rows = 3, 7, 12
    x, logits = rows_of(rows, 64 * (used if own else 1)), crowded_logits(rows, experts)
    weights = packed("F32", experts, outputs, 64)

    def graph(program: _native.Program, ins: list[int]) -> list[int]:
        chosen, shares = program.route(ins[1], used, False)
        result = program.expert_linear(ins[0], chosen, weights)
        return [chosen, shares, result, program.expert_sum(result, shares)]

    chosen, shares, found, total = evaluate(graph, [x, logits])
    order = np.argsort(-logits, axis=1, kind="stable")[:, :used]
    assert np.array_equal(chosen, order)
    wide = values("F32", experts, outputs, 64)
    for row in range(rows):
        weight = np.exp(logits[row].astype(np.float64))
        share = (weight / weight.sum())[order[row]]
        assert np.allclose(shares[row], share, rtol=2e-6)
        slots = x[row].astype(np.float64).reshape(-1, 64)
        wanted = [wide[expert] @ slots[slot if own else 0] for slot, expert in enumerate(order[row])]
        error = np.abs(found[row].reshape(used, -1) - wanted).max()
        assert error <= 3e-6 * np.abs(wanted).max()
        assert np.abs(total[row] - share @ np.stack(wanted)).max() <= 3e-6 * np.abs(wanted).max()


def test_equal_logits_go_to_the_lowest_ids() -> None:
    logits = np.array([[1, 5, 5, 0, 5], [0, 0, 0, 0, 0], [-np.inf, 2, -np.inf, 2, 3]], np.float32)
    for isa in _native.available_isas():
        chosen, shares = evaluate(lambda p, x: list(p.route(x[0], 3, True)), [logits], isa=isa)
        assert chosen.tolist() == [[1, 2, 4], [0, 1, 2], [4, 1, 3]]
        assert np.allclose(shares.sum(axis=1), 1)
        assert np.allclose(shares[:2], 1 / 3)


def test_logits_that_are_no_numbers_choose_experts_that_exist() -> None:
    weights = packed("Q8_0", 5, 16, 32)
    logits = np.full((4, 5), np.nan, np.float32)
    logits[1, 3], logits[2] = np.inf, -np.inf
    logits[3] = [1, np.nan, 3, 2, np.nan]

    def graph(program: _native.Program, x: list[int]) -> list[int]:
        chosen, shares = program.route(x[1], 3, True)
        return [chosen, shares, program.expert_linear(x[0], chosen, weights)]

    found = [evaluate(graph, [rows_of(4, 32), logits], isa=isa) for isa in _native.available_isas()]
    assert set(found[0][0].reshape(-1)) <= set(range(5))
    assert found[0][0][3].tolist() == [2, 3, 0]
    for results in found:
        for result, first in zip(results, found[0], strict=True):
            assert np.array_equal(result, first, equal_nan=True)


RECORDING = [
    ("used experts: expected 1 to 8, found 9", lambda p: p.route(p.input(8), 9, True)),
    ("route: experts: expected 1 to 1024, found 2000", lambda p: p.route(p.input(2000), 2, True)),
    (
        "ids: expected what route gave, found another buffer",
        lambda p: p.expert_linear(p.input(64), p.input(2), packed("F32", 3, 16, 64)),
    ),
    (
        "experts of the weight: expected 4, found 3",
        lambda p: p.expert_linear(p.input(64), p.route(p.input(4), 2, True)[0], packed("F32", 3, 16, 64)),
    ),
    (
        "width of x: expected 64 or 128, found 96",
        lambda p: p.expert_linear(p.input(96), p.route(p.input(3), 2, True)[0], packed("F32", 3, 16, 64)),
    ),
    ("expected a multiple of 3 shares, found 64", lambda p: p.expert_sum(p.input(64), p.input(3))),
]


@pytest.mark.parametrize(("message", "record"), RECORDING, ids=[message for message, _ in RECORDING])
def test_what_does_not_fit_is_refused(message: str, record: Callable[[_native.Program], object]) -> None:
    with pytest.raises(ValueError, match=message):
        record(_native.Program(pool(1), _native.Workspace(), 2, 0))


def test_packing_is_checked() -> None:
    store, data = _native.Weights(1 << 16), np.zeros(3 * 16 * 64 * 4, np.uint8)
    with pytest.raises(ValueError, match="experts: bytes of the file: expected 16384, found 12288"):
        store.pack_experts("F32", 4, 16, 64, data, pool(1))
    with pytest.raises(ValueError, match="experts: number: expected 1 to 1024, found 0"):
        store.pack_experts("F32", 0, 16, 64, data, pool(1))
    with pytest.raises(ValueError, match="outputs: expected 1 to"):
        store.pack_experts("F32", 3, -16, 64, data, pool(1))


def test_the_first_rows_of_a_matrix_are_a_matrix() -> None:
    """They share its memory; taking fewer changes no output."""
    x = rows_of(3, 64)
    for kind in ("F16", "Q8_0", "Q4_0"):
        whole = pack(kind, matrix_bytes(kind, 50, 64, 0), 64)
        (expected,) = evaluate(lambda p, ins: p.linear(ins[0], [whole]), [x])  # noqa: B023
        for rows in (1, 16, 37, 50):
            part = whole.first_rows(rows)
            assert (part.outputs, part.inputs, part.type) == (rows, 64, kind)
            (found,) = evaluate(lambda p, ins: p.linear(ins[0], [part]), [x])  # noqa: B023
            assert same_bits(found, np.ascontiguousarray(expected[:, :rows]))
        for wrong in (0, 51):
            with pytest.raises(ValueError, match=f"first rows: expected 1 to 50, found {wrong}"):
                whole.first_rows(wrong)
