"""Attention within a block: every row of a sequence in the pass sees all others, and what the cache holds before."""

from __future__ import annotations

import numpy as np
import pytest

from native_graphs import Floats, evaluate, ids, pool, rows_of, same_bits
from verispec import _native
from verispec.ops.contract import AttentionSpec
from verispec.ops.reference import Cache, PassInputs, ReferenceOperations

HEADS, KV_HEADS, DIM, CONTEXT, BLOCK = 4, 2, 24, 90, 7
SPEC = AttentionSpec(0, HEADS, KV_HEADS, DIM, 0.2, block=True)
ISAS = _native.available_isas()


def inputs(rows: int, seed: int = 0) -> list[Floats]:
    return [rows_of(rows, n * DIM, 10 * seed + i) for i, n in enumerate((HEADS, KV_HEADS, KV_HEADS))]


def filled(cache: _native.KvCache, slot: int, seed: int) -> None:
    """Keys and values of the context, stored without attending to anything."""
    _, k, v = inputs(CONTEXT, seed)

    def graph(program: _native.Program, x: list[int]) -> list[int]:
        program.store_kv(x[0], x[1], cache, 0)
        return []

    evaluate(graph, [k, v], slots=ids([slot] * CONTEXT))


def block_pass(slots: list[int], threads: int = 1, isa: str | None = None) -> dict[int, Floats]:
    """The results of a block in each of ``slots``, of one pass in which their rows alternate."""
    cache = _native.KvCache(3, 128, [(KV_HEADS, DIM, 128)])
    for slot in slots:
        filled(cache, slot, slot)
    blocks = [inputs(BLOCK, 50 + slot) for slot in slots]
    together = [np.stack(parts, 1).reshape(-1, parts[0].shape[1]) for parts in zip(*blocks, strict=True)]
    (found,) = evaluate(
        lambda p, x: [p.attention(x[0], x[1], x[2], cache, 0, HEADS, 0.2, block=True)],
        together,
        threads=threads,
        isa=isa,
        positions=ids(np.repeat(np.arange(CONTEXT, CONTEXT + BLOCK), len(slots)).tolist()),
        slots=ids(slots * BLOCK),
    )
    return {slot: found[i :: len(slots)] for i, slot in enumerate(slots)}


def expected(slot: int) -> Floats:
    """The same in float64: no mask at all over context and block."""
    _, k_context, v_context = inputs(CONTEXT, slot)
    q, k, v = inputs(BLOCK, 50 + slot)
    keys = np.concatenate([k_context, k]).astype(np.float16).astype(np.float64).reshape(-1, KV_HEADS, DIM)
    values = np.concatenate([v_context, v]).astype(np.float16).astype(np.float64).reshape(-1, KV_HEADS, DIM)
    results = []
    for head in range(HEADS):
        shared = head // (HEADS // KV_HEADS)
        scores = 0.2 * q.reshape(BLOCK, HEADS, DIM)[:, head].astype(np.float64) @ keys[:, shared].T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        results.append(weights / weights.sum(1, keepdims=True) @ values[:, shared])
    return np.stack(results, 1).reshape(BLOCK, -1)


@pytest.mark.parametrize("isa", ISAS)
def test_every_row_sees_context_and_block(isa: str) -> None:
    found = block_pass([1], isa=isa)[1]
    assert np.abs(found - expected(1)).max() < 1e-5 * np.abs(expected(1)).max()
    assert same_bits(found, block_pass([1], isa="portable")[1])


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_of_other_sequences_change_nothing(threads: int) -> None:
    alone = [block_pass([slot])[slot] for slot in range(3)]
    together = block_pass([0, 1, 2], threads)
    assert all(same_bits(together[slot], alone[slot]) for slot in range(3))


def test_the_reference_computes_the_same() -> None:
    cache = Cache()
    _, k, v = inputs(CONTEXT, 2)
    everywhere = range(CONTEXT), [0] * CONTEXT
    ReferenceOperations({}, cache, PassInputs([0] * CONTEXT, *everywhere, [])).store(k, v, SPEC)
    places = range(CONTEXT, CONTEXT + BLOCK), [0] * BLOCK
    block = ReferenceOperations({}, cache, PassInputs([0] * BLOCK, *places, []))
    found = block.attention(*inputs(BLOCK, 52), SPEC)
    assert np.abs(found - expected(2)).max() < 1e-5 * np.abs(expected(2)).max()


def test_a_window_within_blocks_is_refused() -> None:
    cache = _native.KvCache(1, 64, [(KV_HEADS, DIM, 64)])
    program = _native.Program(pool(1), _native.Workspace(), BLOCK, 0)
    q, k, v = (program.input(x.shape[1]) for x in inputs(BLOCK))
    with pytest.raises(ValueError, match="window: expected none within blocks, found 8"):
        program.attention(q, k, v, cache, 0, HEADS, 0.2, 8, block=True)
