"""The state cache: what a pass leaves at which place, going back to it, copies, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from native_graphs import Floats, ids, matrix, pool, rows_of, same_bits
from native_recurrent import Layer, Native
from verispec import _native

LAYER = Layer()


def joined(native: Native, steps: list[tuple[int, int]], places: list[list[int]], seed: int) -> list[Floats]:
    """Passes over rows [begin, end) of one sequence; ``places``: what each pass reads first, then writes."""
    inputs = LAYER.inputs(40, seed)
    found = []
    for (begin, end), (entering, *written) in zip(steps, places, strict=True):
        part = [x[begin:end] for x in inputs]
        found.append(
            native.run(part, [entering, *written[:-1]], written, positions=ids(range(begin, end)))[1]
        )
    return found


def test_every_kept_state_can_be_gone_back_to() -> None:
    """From each state a pass of eight rows kept, the same rows follow as if the rest had never been evaluated."""
    whole = joined(Native(LAYER), [(0, 30)], [[-1, *[0] * 30]], 1)[0]
    for accepted in range(8):
        native = Native(LAYER, places=10, threads=2)
        before = joined(native, [(0, 10), (10, 18)], [[-1, *[9] * 10], [9, *range(8)]], 1)
        assert same_bits(np.concatenate(before), whole[:18])
        other = LAYER.inputs(40, 2)
        native.run([x[10:13] for x in other], [9, 8, 8], [8, 8, 8], positions=ids([10, 11, 12]))
        (after,) = joined(native, [(11 + accepted, 30)], [[accepted, *[accepted] * (19 - accepted)]], 1)
        assert same_bits(after, whole[11 + accepted :]), accepted


def test_states_between_need_no_place_of_their_own() -> None:
    """Rows whose state nobody wants write where a later row does; what is kept is the same."""
    kept, passing = Native(LAYER), Native(LAYER, threads=3)
    joined(kept, [(0, 6)], [[-1, 0, 1, 2, 3, 4, 5]], 3)
    joined(passing, [(0, 6)], [[-1, 3, 3, 3, 3, 4, 3]], 3)
    assert passing.states.save(4) == kept.states.save(4)
    assert passing.states.save(3) == kept.states.save(5)
    assert not any(passing.states.save(0))


@pytest.mark.parametrize("isa", _native.available_isas())
def test_large_states_are_kept_the_same_way(isa: str) -> None:
    """States that no inner cache holds several of are stored past the caches; the last panel is no whole number of
    vectors."""
    for layer in (Layer(key_heads=2, value_heads=16, key_dim=128, value_dim=128), Layer(2, 24, 128, 88)):
        inputs = layer.inputs(4)
        kept, passing = Native(layer, threads=2, isa=isa), Native(layer)
        kept.run(inputs, [-1, 0, 1, 2], [0, 1, 2, 3])
        for row in range(4):
            passing.run([x[row : row + 1] for x in inputs], [row - 1], [row], positions=ids([row]))
        for place in range(4):
            assert kept.states.save(place) == passing.states.save(place), (layer, place)


def test_a_state_that_is_only_read_stays() -> None:
    native = Native(LAYER)
    joined(native, [(0, 4)], [[-1, 0, 0, 0, 0]], 4)
    before = native.states.save(0)
    joined(native, [(4, 9)], [[0, 1, 1, 2, 3, 1]], 4)
    assert native.states.save(0) == before


def test_what_is_saved_is_the_convolutions_last_inputs_and_the_state() -> None:
    native = Native(LAYER)
    joined(native, [(0, 5)], [[-1, *[2] * 5]], 5)
    saved = np.frombuffer(native.states.save(2), np.float32)
    assert native.states.saved_bytes == 4 * sum(LAYER.floats) == saved.nbytes
    last = LAYER.inputs(40, 5)[0][2:5]
    assert same_bits(saved[: last.size].reshape(last.shape), last)
    assert np.isfinite(saved).all()
    assert saved[last.size :].any()


def test_a_place_moves_to_another_cache() -> None:
    one, other = Native(LAYER), Native(LAYER)
    (whole,) = joined(Native(LAYER), [(0, 20)], [[-1, *[0] * 20]], 6)
    joined(one, [(0, 12)], [[-1, *[1] * 12]], 6)
    other.states.load(5, one.states.save(1))
    assert same_bits(joined(other, [(12, 20)], [[5, *[5] * 8]], 6)[0], whole[12:])
    other.states.discard(5)
    assert not any(other.states.save(5))


BAD_PLACES = [
    ([-2, 0, 1, 1], [0, 0, 1, 1], "state_from of row 0: expected -1 to 7, found -2"),
    ([-1, 0, 8, 1], [0, 0, 1, 1], "state_from of row 2: expected -1 to 7, found 8"),
    ([-1, 0, -1, 1], [0, 0, 1, -1], "state_to of row 3: expected 0 to 7, found -1"),
    ([-1, 0, -1, 1], [0, 8, 1, 1], "state_to of row 1: expected 0 to 7, found 8"),
    ([-1, 1, -1, 1], [0, 0, 1, 1], "state_from of row 1, which follows another of its sequence: expected 0, found 1"),
    ([-1, -1, -1, 1], [0, 0, 1, 1], "state_from of row 1, .*: expected 0, found -1"),
    ([-1, 0, -1, 2], [0, 1, 2, 1], "state_to of row 3: expected a place no other sequence writes, found place 1"),
    ([5, 0, 0, 1], [0, 6, 1, 1], "state_from of row 2: expected a place no other sequence writes, found place 0"),
    ([2, 0, -1, 1], [0, 6, 1, 2], "state_from of row 0: expected a place no other sequence writes, found place 2"),
    ([-1, 0, 1], [0, 0, 1, 1], "number of state_from: expected 4, found 3"),
    ([-1, 0, 1, 1], [0], "number of state_to: expected 4, found 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state_from", "state_to", "message"), BAD_PLACES, ids=[message for *_, message in BAD_PLACES]
)
def test_bad_places(state_from: list[int], state_to: list[int], message: str) -> None:
    """Two sequences of two rows each in eight places; nothing is written by a pass that is refused."""
    native = Native(LAYER)
    given = {"positions": ids([0, 1, 0, 1]), "slots": ids([0, 0, 1, 1])}
    with pytest.raises(ValueError, match=message):
        native.run(LAYER.inputs(4), state_from, state_to, **given)
    assert not any(any(native.states.save(place)) for place in range(8))
    native.run(LAYER.inputs(4), [-1, 0, -1, 1], [0, 0, 1, 1], **given)


@pytest.mark.parametrize(
    ("slots", "positions", "message"),
    [
        ([0, 1, 0], [0, 0, 1], "rows of a slot side by side, found those of slot 0 apart"),
        (
            [2, 2, 2],
            [4, 6, 7],
            "position of row 1, which follows another of its sequence: expected 5, found 6",
        ),
        (
            [2, 2, 2],
            [5, 4, 3],
            "position of row 1, which follows another of its sequence: expected 6, found 4",
        ),
    ],
)
def test_rows_that_are_no_chains(slots: list[int], positions: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Native(LAYER).run(LAYER.inputs(3), [-1, 0, 0], [0, 0, 0], positions=ids(positions), slots=ids(slots))


def test_places_are_given_exactly_where_states_are_kept() -> None:
    native = Native(LAYER)
    program = native.program(1)
    zero, inputs = ids([0]), LAYER.inputs(1)
    for places in ({}, {"state_from": zero}, {"state_to": zero}):
        with pytest.raises(
            ValueError, match="expected the places of states for a program with recurrent layers"
        ):
            program.run(zero, zero, zero, ids([]), inputs, **places)
    program.evaluate([(0, 0, 0, -1)], [], [-1], [0], inputs)
    plain = _native.Program(pool(1), _native.Workspace(), 1, 0)
    plain.scale(plain.input(8), 1.0)
    plain.finish()
    with pytest.raises(
        ValueError, match="expected no places of states for a program without recurrent layers"
    ):
        plain.evaluate([(0, 0, 0, -1)], [], [-1], [0], [rows_of(1, 8)])
    native.states.close()
    with pytest.raises(ValueError, match="expected an open state cache, found a closed one"):
        program.evaluate([(0, 0, 0, -1)], [], [-1], [0], inputs)
    with pytest.raises(ValueError, match="expected an open cache, found a closed one"):
        native.states.save(0)


def delta(program: _native.Program, states: _native.StateCache, **change: int) -> int:
    sizes = {"key_heads": 2, "value_heads": 4, "key_dim": 8, "value_dim": 8} | change
    vector = _native.Vector(np.zeros(4, np.float32))
    qkv, rates = program.input(64), program.input(4)
    return program.delta_rule(qkv, rates, rates, vector, vector, states, 0, **sizes, epsilon=1e-6)


RECORDING = [
    ("value heads: expected a multiple of 3 key heads, found 4", lambda p, s: delta(p, s, key_heads=3)),
    ("key_dim: expected 1 to 256, found 257", lambda p, s: delta(p, s, key_dim=257)),
    ("width of qkv: expected 72, found 64", lambda p, s: delta(p, s, value_dim=10)),
    ("width of beta: expected 2, found 4", lambda p, s: delta(p, s, value_heads=2, key_dim=12)),
    ("floats of state layer 0: expected 256, found 255", lambda p, s: delta(p, _native.StateCache(1, [(0, 255)]))),
    ("state cache: layer: expected 0 to -1, found 0", lambda p, s: delta(p, _native.StateCache(1, []))),
    ("one state cache for the whole program", lambda p, s: (delta(p, s), delta(p, _native.StateCache(1, [(0, 256)])))),
    (
        "floats of state layer 0: expected 24, found 0",
        lambda p, s: p.convolution(p.input(8), matrix("F32", 8, 4), s, 0),
    ),
    ("channels of the weight: expected 9, found 8", lambda p, s: p.convolution(p.input(9), matrix("F32", 8, 4), s, 0)),
    ("taps of the weight: expected 1 to 8", lambda p, s: p.convolution(p.input(8), matrix("F32", 8, 9), s, 0)),
    ("places: expected 1 to", lambda p, s: _native.StateCache(0, [(1, 1)])),
    ("layer 1: floats of the convolution: expected 0 to", lambda p, s: _native.StateCache(1, [(1, 1), (-1, 1)])),
    ("place: expected 0 to 0, found 1", lambda p, s: s.save(1)),
    ("place: expected 0 to 0, found -1", lambda p, s: s.discard(-1)),
    ("bytes of a place: expected 1024, found 3", lambda p, s: s.load(0, b"abc")),
    ("width of the gate: expected a divisor of 8, found 3", lambda p, s: p.sigmoid_gate(p.input(8), p.input(3))),
    ("split: width of x .*: expected 9, found 8", lambda p, s: p.split(p.input(8), [1, 2], 3)),
    ("split: a width: expected 1 to 8, found 0", lambda p, s: p.split(p.input(8), [8, 0])),
    ("concat: parts: expected at least one, found none", lambda p, s: p.concat([])),
]  # fmt: skip


@pytest.mark.parametrize(("message", "record"), RECORDING, ids=[message for message, _ in RECORDING])
def test_what_does_not_fit_is_refused(message: str, record: object) -> None:
    assert callable(record)
    with pytest.raises(ValueError, match=message):
        record(_native.Program(pool(1), _native.Workspace(), 2, 0), _native.StateCache(1, [(0, 256)]))


def test_nothing_is_copied_while_a_pass_runs() -> None:
    layer = Layer(key_heads=2, value_heads=8, key_dim=128, value_dim=128)
    native = Native(layer)
    inputs, rows = layer.inputs(200), [0] * 200
    started, stop = threading.Event(), threading.Event()

    def run() -> None:
        while not stop.is_set():
            started.set()
            native.run(inputs, rows, rows)

    runner = threading.Thread(target=run)
    runner.start()
    started.wait()
    refusals: set[str] = set()
    while runner.is_alive() and not refusals:
        try:
            native.states.save(1)
        except RuntimeError as error:
            refusals.add(str(error))
    stop.set()
    runner.join()
    assert refusals == {"state cache: a pass or a copy is running on it"}


def test_memory_is_committed_as_it_is_written() -> None:
    """A thousand places of 4 MiB, of which one is written and given back; zeros are read from nowhere."""
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1])
    layer = Layer(key_heads=8, value_heads=64, key_dim=128, value_dim=128)
    native = Native(layer, places=1000)
    assert native.states.bytes >= 1000 * 4 * sum(layer.floats)

    def grown() -> float:
        with open("/proc/self/statm") as file:
            return (int(file.read().split()[1]) - before) * 4096 / (4 * sum(layer.floats))

    native.run(layer.inputs(1), [-1], [700])
    assert grown() < 4
    written = grown()
    native.states.discard(700)
    assert grown() < written - 0.8
