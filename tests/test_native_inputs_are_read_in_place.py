"""Hidden states handed to a pass are read where they lie; caches may begin late or skip layers."""

from __future__ import annotations

import numpy as np
import pytest

from native_graphs import evaluate, ids, pool, rows_of, same_bits
from verispec import _native


def doubling(workspace: _native.Workspace, rows: int, width: int) -> _native.Program:
    program = _native.Program(pool(1), workspace, rows, 0)
    x = program.input(width)
    program.tap(x, 0)
    program.tap(program.scale(x, 2.0), 1)
    program.finish()
    return program


def run(program: _native.Program, x: np.ndarray) -> None:
    rows = program.rows
    program.run(ids([0] * rows), ids(range(rows)), ids([0] * rows), ids([]), [x])


def test_an_input_takes_no_room_in_the_workspace() -> None:
    small = doubling(_native.Workspace(), 1, 64)
    large = doubling(_native.Workspace(), 1000, 4096)
    # A copy that is tapped and a result, of 16 MB each, and nothing for the input itself.
    assert large.workspace_bytes - small.workspace_bytes < 2.1 * 1000 * 4096 * 4


def test_a_tapped_input_outlives_its_array() -> None:
    program = doubling(_native.Workspace(), 3, 8)
    x = rows_of(3, 8)
    given = x.copy()
    run(program, given)
    given[:] = 0
    assert same_bits(program.hidden(0).copy(), x)
    assert same_bits(program.hidden(1).copy(), 2 * x)


def test_an_input_is_never_written() -> None:
    table = _native.RopeTable([0.5, 0.1], 1.0, False, 8)
    x = rows_of(2, 8)
    given = x.copy()
    (rotated,) = evaluate(lambda p, ins: [p.rope(ins[0], 2, table)], [given])
    assert same_bits(given, x)
    assert not same_bits(rotated, x)


def test_the_hidden_states_of_one_pass_are_the_input_of_another() -> None:
    """Of another workspace: where the pass itself writes, its input cannot lie."""
    shared = _native.Workspace()
    first, second, inside = (
        doubling(shared, 2, 16),
        doubling(_native.Workspace(), 2, 16),
        doubling(shared, 2, 16),
    )
    x = rows_of(2, 16)
    run(first, x)
    run(second, first.hidden(1))
    assert same_bits(second.hidden(1).copy(), 4 * x)
    with pytest.raises(ValueError, match="input 0: expected values outside the workspace of the pass"):
        run(inside, first.hidden(1))


def test_arrays_that_would_need_a_copy_are_refused() -> None:
    program = doubling(_native.Workspace(), 2, 16)
    x = rows_of(2, 32)
    for wrong in (x[:, ::2], x[:, :16], x[:, :16].astype(np.float64)):
        with pytest.raises(TypeError):
            run(program, wrong)
    unaligned = np.frombuffer(b"\0" + bytes(2 * 16 * 4), np.float32, 32, offset=1).reshape(2, 16)
    with pytest.raises(ValueError, match="input 0: expected aligned float32 values, found unaligned ones"):
        run(program, unaligned)


@pytest.mark.parametrize("first", [1, 17, 70])
@pytest.mark.parametrize("window", [0, 8])
def test_positions_below_the_first_are_never_seen(first: int, window: int) -> None:
    """The same as a sequence that begins there, whatever the cache holds below."""
    heads, dim, rows = 2, 16, 90
    q, k, v = (rows_of(rows, heads * dim, seed) for seed in range(3))

    def attended(begin: int, hostile: bool) -> np.ndarray:
        cache = _native.KvCache(1, 128, [(0, 0, 0), (heads, dim, 128)])
        if hostile:
            block = np.full(2 * 16 * heads * dim, np.nan, np.float16).tobytes()
            for start in range(0, 128, 16):
                cache.load(0, start, start + 16, block)
        positions = ids(range(begin, rows))
        (found,) = evaluate(
            lambda p, x: [p.attention(*x, cache, 1, heads, 0.2, window, first=first)],
            [x[begin:] for x in (q, k, v)],
            positions=positions,
            threads=2,
        )
        return found

    plain = attended(first, False)
    assert np.isfinite(plain).all()
    assert same_bits(attended(first, True), plain)
    for isa in _native.available_isas():
        cache = _native.KvCache(1, 128, [(heads, dim, 128)])
        (found,) = evaluate(
            lambda p, x: [p.attention(*x, cache, 0, heads, 0.2, window, first=first)],  # noqa: B023
            [x[first:] for x in (q, k, v)],
            positions=ids(range(first, rows)),
            isa=isa,
        )
        assert same_bits(found, plain), isa
    wide = [x[first:].astype(np.float64).reshape(-1, heads, dim) for x in (q, k, v)]
    keys, values = (x.astype(np.float16).astype(np.float64) for x in wide[1:])
    for row in (0, 5, rows - first - 1):
        seen = slice(max(0, row - window + 1) if window else 0, row + 1)
        for head in range(heads):
            scores = 0.2 * keys[seen, head] @ wide[0][row, head]
            weights = np.exp(scores - scores.max())
            wanted = weights @ values[seen, head] / weights.sum()
            assert (
                np.abs(plain[row, head * dim : (head + 1) * dim] - wanted).max() < 1e-5 * np.abs(values).max()
            )
    with pytest.raises(ValueError, match=f"position of row 0: expected {first} to 127, found {first - 1}"):
        attended(first - 1, False)


def test_layers_that_keep_nothing() -> None:
    layers = [(0, 0, 0), (2, 8, 64), (0, 0, 0), (1, 8, 32)]
    cache, plain = _native.KvCache(2, 64, layers), _native.KvCache(2, 64, [layers[1], layers[3]])
    assert (cache.nbytes, cache.kept(0), cache.kept(1)) == (plain.nbytes, 0, 64)
    saved = np.random.default_rng(0).bytes(len(plain.save(0, 0, 16)))
    cache.load(1, 16, 32, saved)
    assert cache.save(1, 16, 32) == saved
    cache.discard_slot(1)
    assert not any(cache.save(1, 16, 32)) or len(saved) < 4096
    program = _native.Program(pool(1), _native.Workspace(), 1, 0)
    with pytest.raises(ValueError, match="attention: expected a layer that the KV cache keeps"):
        program.attention(program.input(8), program.input(8), program.input(8), cache, 2, 1, 0.1)
    with pytest.raises(ValueError, match="layer 0: head_dim: expected 1 to"):
        _native.KvCache(1, 16, [(1, 0, 0)])
