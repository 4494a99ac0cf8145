"""C1 and C3 for the recurrences: a row's bits depend on the rows before it in its sequence and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_graphs import Floats, evaluate, ids, matrix, pool, rows_of, same_bits, vector
from native_recurrent import Layer, Native, expected
from verispec import _native

LAYERS = [
    Layer(),
    Layer(key_heads=1, value_heads=3, key_dim=5, value_dim=7, kernel=2),
    Layer(key_heads=2, value_heads=4, key_dim=128, value_dim=128),
    Layer(key_heads=4, value_heads=4, key_dim=32, value_dim=100, kernel=3),
    Layer(key_heads=2, value_heads=6, key_dim=32, value_dim=80, grouped=True),
]


def chunked(native: Native, inputs: list[Floats], sizes: list[int]) -> list[Floats]:
    """One sequence in passes of these sizes, over and over; it lives at place 3."""
    parts: list[list[Floats]] = []
    begin, rows = 0, inputs[0].shape[0]
    while begin < rows:
        end = min(begin + sizes[len(parts) % len(sizes)], rows)
        count = end - begin
        entering = 3 if begin else -1
        part = [x[begin:end] for x in inputs]
        parts.append(
            native.run(part, [entering, *[3] * (count - 1)], [3] * count, positions=ids(range(begin, end)))
        )
        begin = end
    return [np.concatenate(results) for results in zip(*parts, strict=True)]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_results_follow_their_formulas(layer: Layer) -> None:
    inputs = layer.inputs(40)
    found = chunked(Native(layer), inputs, [40])
    for name, result, wanted in zip(
        ("convolution", "delta rule"), found, expected(layer, inputs), strict=True
    ):
        error = np.abs(result - wanted).max(axis=0) / np.abs(wanted).max(axis=0)
        assert error.max() < 1e-5, name


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_chunks_threads_and_instruction_sets_change_nothing(layer: Layer) -> None:
    inputs = layer.inputs(39)
    alone = chunked(Native(layer), inputs, [1])
    for isa in _native.available_isas():
        for threads, sizes in ((1, [39]), (2, [1, 7, 2, 16, 5]), (3, [18])):
            found = chunked(Native(layer, threads=threads, isa=isa), inputs, sizes)
            for one, other in zip(alone, found, strict=True):
                assert same_bits(one, other), f"{isa}, {threads} threads, passes of {sizes}"


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_shape_in_any_chunks(data: st.DataObject) -> None:
    draw = lambda least, most: data.draw(st.integers(least, most))  # noqa: E731
    key_heads = draw(1, 3)
    layer = Layer(key_heads, key_heads * draw(1, 3), draw(1, 40), draw(1, 140), draw(2, 8), bool(draw(0, 1)))
    inputs = layer.inputs(20, draw(0, 9))
    isas = _native.available_isas()
    one = chunked(Native(layer, isa=isas[0]), inputs, [1])
    other = chunked(Native(layer, threads=draw(1, 4), isa=isas[-1]), inputs, [draw(1, 20), draw(1, 20)])
    for a, b in zip(one, other, strict=True):
        assert same_bits(a, b)


def test_neighbours_change_nothing() -> None:
    """Three sequences in one pass, each from its own state."""
    layer = LAYERS[3]
    native = Native(layer, threads=2)
    sequences = [layer.inputs(12, seed) for seed in (1, 2, 3)]
    alone = [chunked(Native(layer), inputs, [12]) for inputs in sequences]
    for place, inputs in enumerate(sequences):
        native.run([x[:5] for x in inputs], [-1, *[place] * 4], [place] * 5)
    together = [np.concatenate([x[5:] for x in parts]) for parts in zip(*sequences, strict=True)]
    places = np.repeat(range(3), 7)
    found = native.run(
        together, places.tolist(), places.tolist(), positions=ids([*range(5, 12)] * 3), slots=ids(places)
    )
    for index, result in enumerate(found):
        assert same_bits(result, np.concatenate([results[index][5:] for results in alone]))


def test_a_convolution_behind_projections_of_several_widths() -> None:
    """It runs where its own projection's columns are made, whatever is projected beside it."""
    weights = [matrix("Q8_0", 176, 64), matrix("F32", 90, 64, 1), matrix("Q4_0", 3, 64, 2)]
    taps = matrix("F16", 176, 4, 3)
    x = rows_of(9, 64)

    def run(rows: slice, states: _native.StateCache, entering: int, threads: int) -> tuple[list[Floats], str]:
        count = rows.stop - rows.start
        program = _native.Program(pool(threads), _native.Workspace(), count, 0)
        projected = program.linear(program.input(64), weights)
        for name, buffer in enumerate([program.convolution(projected[0], taps, states, 0), *projected[1:]]):
            program.tap(buffer, name)
        program.finish()
        program.run(
            ids([0] * count),
            ids(range(rows.start, rows.stop)),
            ids([0] * count),
            ids([]),
            [x[rows]],
            ids([entering] + [0] * (count - 1)),
            ids([0] * count),
        )
        return [program.hidden(name).copy() for name in range(3)], program.phases()[-1]

    states = _native.StateCache(1, [(3 * 176, 0)])
    whole, last_phase = run(slice(0, 9), states, -1, 2)
    assert last_phase.startswith("linear+convolution in")
    first, _ = run(slice(0, 1), states, -1, 1)
    rest, _ = run(slice(1, 9), states, 0, 1)
    for together, one, others in zip(whole, first, rest, strict=True):
        assert same_bits(together, np.concatenate([one, others]))


def test_a_gated_norm_behind_the_delta_rule() -> None:
    """Norm, gate and quantised projection of its result: done head by head where threads share heads, else row by
    row."""
    layer = Layer(key_heads=2, value_heads=4, key_dim=32, value_dim=96)
    output = matrix("Q8_0", 40, 4 * 96)
    inputs = [*layer.inputs(11), rows_of(11, 4 * 96, 9)]

    def run(
        rows: slice, states: _native.StateCache, threads: int, isa: str
    ) -> tuple[list[Floats], list[str]]:
        count, entering = rows.stop - rows.start, 0 if rows.start else -1
        program = _native.Program(pool(threads), _native.Workspace(), count, 0, isa=isa)
        *parts, gate = (program.input(x.shape[1]) for x in inputs)
        decay, dt_bias = _native.Vector(layer.decay()), _native.Vector(layer.dt_bias())
        recalled = program.delta_rule(*parts, decay, dt_bias, states, 0, 2, 4, 32, 96, 1e-6)
        gated = program.swiglu(gate, program.rms_norm(recalled, vector(96), 1e-6, 4))
        program.tap(program.linear(gated, [output])[0], 0)
        program.finish()
        program.run(
            ids([0] * count),
            ids(range(rows.start, rows.stop)),
            ids([0] * count),
            ids([]),
            [np.ascontiguousarray(x[rows]) for x in inputs],
            ids([entering] + [0] * (count - 1)),
            ids([0] * count),
        )
        return [program.hidden(0).copy()], program.phases()

    def states() -> _native.StateCache:
        return _native.StateCache(1, [(0, layer.floats[1])])

    (whole,), phases = run(slice(0, 11), states(), 2, "portable")
    assert phases[0].startswith("delta_rule+rms_norm+swiglu+quantise in")
    for isa in _native.available_isas():
        for threads in (1, 3):
            kept = states()
            parts = [run(slice(begin, begin + 1), kept, threads, isa) for begin in range(11)]
            assert same_bits(whole, np.concatenate([found for (found,), _ in parts])), (isa, threads)
            assert parts[0][1][0].startswith("delta_rule in" if threads == 3 else "delta_rule+")


def test_gates_splits_and_joins() -> None:
    x, narrow = rows_of(7, 96, 1), rows_of(7, 4, 2)

    def graph(program: _native.Program, ins: list[int]) -> list[int]:
        pieces = program.split(ins[0], [20, 12], 3)
        joined = program.concat([ins[1], pieces[1], ins[1]])
        return [*pieces, joined, program.sigmoid_gate(ins[0], ins[1]), program.sigmoid_gate(ins[0], ins[0])]

    together = evaluate(graph, [x, narrow], threads=2)
    parts = x.reshape(7, 3, 32)
    assert same_bits(together[0], np.ascontiguousarray(parts[:, :, :20]).reshape(7, 60))
    assert same_bits(together[1], np.ascontiguousarray(parts[:, :, 20:]).reshape(7, 36))
    assert same_bits(together[2], np.concatenate([narrow, together[1], narrow], axis=1))
    wide = x.astype(np.float64)
    for found, gate in ((together[3], np.repeat(narrow.astype(np.float64), 24, axis=1)), (together[4], wide)):
        wanted = wide / (1 + np.exp(-gate))
        assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
    for isa in _native.available_isas():
        for row in range(7):
            alone = evaluate(graph, [x[row : row + 1], narrow[row : row + 1]], isa=isa)
            for several, one in zip(together, alone, strict=True):
                assert same_bits(several[row : row + 1], one), f"row {row}, {isa}"


def test_decays_keep_their_digits() -> None:
    """One row writes a state, 200 more only let it decay: what is left has few more errors than decays."""
    layer = Layer(key_heads=1, value_heads=16, key_dim=1, value_dim=1)
    inputs = layer.inputs(200)
    inputs[1][1:] = -200.0
    inputs[2][:] = np.linspace(-12, 1, 200)[:, None]
    inputs[0][1:] = inputs[0][:1]
    found = chunked(Native(layer), inputs, [200])[1]
    wanted = expected(layer, inputs)[1]
    visible = np.abs(wanted) > 1e-30
    assert np.abs(found / np.where(visible, wanted, 1) - 1)[visible].max() < 1e-4


def test_hostile_values_agree_too() -> None:
    """Infinities, NaN, denormals and the largest numbers: the same results on every instruction set, and rows of other
    sequences stay what they are."""
    extremes = np.array(
        [0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 88.8, -103.9], np.float32
    )
    layer = Layer()
    sound = layer.inputs(6)
    poisoned = [np.resize(extremes, x.shape) for x in sound]
    inputs = [np.concatenate(pair) for pair in zip(sound, poisoned, strict=True)]
    alone = Native(layer).run(sound, [-1, *[0] * 5], [0] * 6)
    places = {"positions": ids([*range(6)] * 2), "slots": ids(np.repeat([0, 1], 6))}
    found = [
        Native(layer, threads=2, isa=isa).run(
            inputs, [-1, *[0] * 5, -1, *[1] * 5], [0] * 6 + [1] * 6, **places
        )
        for isa in _native.available_isas()
    ]
    for results in found:
        for result, first, wanted in zip(results, found[0], alone, strict=True):
            assert np.array_equal(result, first, equal_nan=True)
            assert same_bits(np.ascontiguousarray(result[:6]), wanted)
