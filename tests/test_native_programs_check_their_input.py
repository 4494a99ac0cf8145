"""Bad input to a program is a ValueError that says what, where, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from native_graphs import ids, matrix, pool, rows_of, vector
from verispec import _native


def new_program(rows: int = 2, outputs: int = 1) -> _native.Program:
    return _native.Program(pool(1), _native.Workspace(), rows, outputs)


def new_cache(kept: int = 64) -> _native.KvCache:
    return _native.KvCache(2, 64, [(2, 8, kept)])


RECORDING: list[tuple[str, Callable[[_native.Program], object]]] = [
    ("add: first operand .buffer.: expected 0 to .*, found 7", lambda p: p.add(7, 0)),
    ("width of the second operand: expected 16, found 24", lambda p: p.add(p.input(16), p.input(24))),
    ("same rows", lambda p: p.add(p.select_outputs(p.input(8)), p.input(8))),
    (
        "linear: inputs of a matrix: expected 64, found 32",
        lambda p: p.linear(p.input(64), [matrix("F32", 4, 32)]),
    ),
    ("at least one matrix", lambda p: p.linear(p.input(64), [])),
    ("number of biases", lambda p: p.linear(p.input(32), [matrix("F32", 4, 32)], [None, None])),
    (
        "width of a bias: expected 4, found 5",
        lambda p: p.linear(p.input(32), [matrix("F32", 4, 32)], [vector(5)]),
    ),
    ("width of the weight: expected 4, found 8", lambda p: p.rms_norm(p.input(8), vector(8), 1e-5, 2)),
    ("groups: expected a divisor", lambda p: p.rms_norm(p.input(8), None, 1e-5, 3)),
    ("epsilon", lambda p: p.rms_norm(p.input(8), None, float("nan"))),
    ("factor: expected a finite number", lambda p: p.scale(p.input(8), float("inf"))),
    ("cap: expected a positive number", lambda p: p.softcap(p.input(8), 0.0)),
    ("layer: expected 0 to 0, found 1", lambda p: attend(p, new_cache(), layer=1)),
    ("heads: expected a multiple of 2", lambda p: attend(p, new_cache(), heads=3)),
    ("width of q: expected 48, found 32", lambda p: attend(p, new_cache(), heads=6)),
    ("window: expected a positive one on a layer that keeps 32", lambda p: attend(p, new_cache(32))),
    (
        "expected at least 33 for window 32 and 2 rows, found 32",
        lambda p: attend(p, new_cache(32), window=32),
    ),
    ("head_dim: expected 1 to", lambda p: _native.KvCache(1, 16, [(1, 5000, 16)])),
    ("output_head: x: expected output rows", lambda p: p.output_head(p.input(64), matrix("F32", 4, 64))),
    ("a number not yet used", lambda p: (p.tap(p.input(8), 3), p.tap(p.input(8), 3))),
    ("rows: expected 1 to", lambda p: new_program(rows=0)),
    ("threads: expected 1 to", lambda p: _native.ThreadPool(0)),
    ("slots: expected 1 to", lambda p: _native.KvCache(0, 16, [])),
    (
        "select_outputs: expected a program with outputs",
        lambda p: (q := new_program(2, 0)).select_outputs(q.input(8)),
    ),
]


def attend(
    program: _native.Program, cache: _native.KvCache, layer: int = 0, heads: int = 4, window: int = 0
) -> int:
    q, k, v = program.input(32), program.input(16), program.input(16)
    return program.attention(q, k, v, cache, layer, heads, 0.1, window)


@pytest.mark.parametrize(("message", "record"), RECORDING, ids=[message for message, _ in RECORDING])
def test_recording(message: str, record: Callable[[_native.Program], object]) -> None:
    with pytest.raises(ValueError, match=message):
        record(new_program())


def test_nothing_is_recorded_after_finish() -> None:
    program = new_program()
    x = program.input(8)
    program.finish()
    for late in (lambda: program.add(x, x), lambda: program.input(8), program.finish):
        with pytest.raises(ValueError, match="found a finished one"):
            late()


def model_program() -> tuple[_native.Program, _native.KvCache]:
    """Two rows, one output, 10 tokens, 64 positions, 2 slots, one input of width 16."""
    cache = new_cache()
    program = new_program()
    x = program.embedding(matrix("F32", 10, 32), 1.0)
    k = program.input(16)
    x = program.attention(x, k, k, cache, 0, 4, 0.1)
    program.output_head(program.select_outputs(x), matrix("F32", 10, 32))
    program.finish()
    return program, cache


GOOD = {"tokens": [1, 2], "positions": [0, 1], "slots": [0, 0], "output_rows": [1]}
BAD_RUNS = [
    ({"tokens": [1, 10]}, "token of row 1: expected 0 to 9, found 10"),
    ({"tokens": [-1, 1]}, "token of row 0: expected 0 to 9, found -1"),
    ({"positions": [0, 64]}, "position of row 1: expected 0 to 63, found 64"),
    ({"positions": [-1, 0]}, "position of row 0: expected 0 to 63, found -1"),
    ({"slots": [0, 2]}, "slot of row 1: expected 0 to 1, found 2"),
    ({"output_rows": [2]}, "output row of row 0: expected 0 to 1, found 2"),
    ({"positions": [5, 5]}, "distinct positions of a slot, found two at position 5"),
    ({"tokens": [1]}, "number of tokens: expected 2, found 1"),
    ({"output_rows": []}, "number of output rows: expected 1, found 0"),
]


@pytest.mark.parametrize(("change", "message"), BAD_RUNS, ids=[message for _, message in BAD_RUNS])
def test_running(change: dict[str, list[int]], message: str) -> None:
    program, _ = model_program()
    given = {name: ids(values) for name, values in (GOOD | change).items()}
    with pytest.raises(ValueError, match=message):
        program.run(**given, inputs=[rows_of(2, 16)])
    program.run(**{name: ids(values) for name, values in GOOD.items()}, inputs=[rows_of(2, 16)])


def test_running_with_wrong_arrays() -> None:
    program, cache = model_program()
    good = {name: ids(values) for name, values in GOOD.items()}
    with pytest.raises(ValueError, match="input 0: width: expected 16, found 8"):
        program.run(**good, inputs=[rows_of(2, 8)])
    with pytest.raises(ValueError, match="number of inputs: expected 1, found 0"):
        program.run(**good)
    with pytest.raises(TypeError):
        program.run(**(good | {"tokens": np.array([1, 2], np.int64)}), inputs=[rows_of(2, 16)])
    with pytest.raises(ValueError, match="logits: expected a program recorded with logits"):
        program.logits()
    with pytest.raises(ValueError, match="hidden: expected a recorded tap, found 4"):
        program.hidden(4)
    cache.close()
    with pytest.raises(ValueError, match="expected an open KV cache, found a closed one"):
        program.run(**good, inputs=[rows_of(2, 16)])


def test_packing() -> None:
    store = _native.Weights(1 << 16)
    zeros = np.zeros(34 * 4, np.uint8)
    store.pack("Q8_0", 4, 32, zeros, pool(1))
    with pytest.raises(ValueError, match=r"type: expected one of F32, .*, found 'Q3_K'"):
        store.pack("Q3_K", 4, 32, zeros, pool(1))
    with pytest.raises(ValueError, match="bytes of the file: expected 170, found 136"):
        store.pack("Q8_0", 5, 32, zeros, pool(1))
    with pytest.raises(ValueError, match="outputs: expected 1 to"):
        store.pack("Q8_0", 0, 32, zeros, pool(1))
    with pytest.raises(ValueError, match=r"33|multiple|32"):
        store.pack("Q8_0", 4, 33, zeros, pool(1))
    with pytest.raises(ValueError, match="weights: expected at most 65536 packed bytes"):
        _native.Weights(1 << 16).pack("F32", 256, 256, np.zeros(1 << 18, np.uint8), pool(1))
    with pytest.raises(TypeError):
        store.pack("Q8_0", 4, 32, zeros.astype(np.int64), pool(1))
