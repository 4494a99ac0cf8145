"""Copies out of and into the cache: what goes out comes back, and nothing outside a slot's positions is touched."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from native_graphs import ids, matrix, pool
from verispec import _native

LAYERS = [(2, 8, 64), (1, 24, 32)]
"""The second is a ring: 2 of 4 blocks of 16 positions."""
BLOCK_BYTES = [2 * 2 * 16 * heads * width for heads, width, _ in LAYERS]


def new_cache() -> _native.KvCache:
    return _native.KvCache(3, 64, LAYERS)


def random_bytes(blocks: int, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(blocks * sum(BLOCK_BYTES))


def ring_half(saved: bytes) -> bytes:
    return saved[-BLOCK_BYTES[1] * (len(saved) // sum(BLOCK_BYTES)) :]


@pytest.mark.parametrize(("begin", "end"), [(0, 16), (16, 32), (48, 64), (0, 32), (16, 48), (32, 64)])
def test_what_goes_in_comes_out(begin: int, end: int) -> None:
    cache = new_cache()
    saved = random_bytes((end - begin) // 16, begin)
    cache.load(1, begin, end, saved)
    assert cache.save(1, begin, end) == saved
    for other in (0, 2):
        for start in (0, 32):
            assert not any(cache.save(other, start, start + 32))


def test_a_ring_holds_the_last_of_the_positions_at_one_place() -> None:
    cache = new_cache()
    early, late = random_bytes(1, 1), random_bytes(1, 2)
    cache.load(2, 0, 16, early)
    cache.load(2, 32, 48, late)
    assert cache.save(2, 32, 48) == late
    found = cache.save(2, 0, 16)
    assert found[: BLOCK_BYTES[0]] == early[: BLOCK_BYTES[0]]
    assert ring_half(found) == ring_half(late)


def test_blocks_one_by_one_are_the_same_as_together() -> None:
    one, together = new_cache(), new_cache()
    saved = random_bytes(2, 3)
    together.load(0, 16, 48, saved)
    for begin in (16, 32):
        one.load(0, begin, begin + 16, together.save(0, begin, begin + 16))
    assert one.save(0, 16, 48) == saved


BAD_RANGES = [
    ((3, 0, 16), "slot: expected 0 to 2, found 3"),
    ((-1, 0, 16), "slot: expected 0 to 2, found -1"),
    ((0, 0, 80), "end of the copied positions: expected 1 to 64, found 80"),
    ((0, 0, 0), "end of the copied positions: expected 1 to 64, found 0"),
    ((0, -16, 16), "start of the copied positions: expected 0 to 15, found -16"),
    ((0, 32, 32), "start of the copied positions: expected 0 to 31, found 32"),
    ((0, -(2**63), 2**63 - 1), "end of the copied positions"),
    ((0, 8, 24), "expected whole blocks of 16, found 8 to 24"),
    ((0, 0, 40), "expected whole blocks of 16, found 0 to 40"),
    ((0, 0, 48), "copied blocks: expected 1 to 2, found 3"),
]


@pytest.mark.parametrize(("place", "message"), BAD_RANGES, ids=[message for _, message in BAD_RANGES])
def test_ranges(place: tuple[int, int, int], message: str) -> None:
    cache = new_cache()
    calls: list[Callable[[], object]] = [
        lambda: cache.save(*place),
        lambda: cache.load(*place, random_bytes(1, 0)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_wrong_sizes_and_closed_caches() -> None:
    cache = new_cache()
    saved = random_bytes(1, 0)
    for wrong in (b"", saved[:-1], saved + b"0"):
        with pytest.raises(ValueError, match=f"bytes of the copied positions: expected {len(saved)}, found"):
            cache.load(0, 0, 16, wrong)
    assert not any(cache.save(0, 0, 16))
    with pytest.raises(TypeError):
        cache.load(0, 0, 16, bytearray(saved))
    cache.close()
    for call in (lambda: cache.save(0, 0, 16), lambda: cache.load(0, 0, 16, saved)):
        with pytest.raises(ValueError, match="expected an open cache, found a closed one"):
            call()


def test_no_copy_is_made_while_a_pass_runs() -> None:
    """It is refused, and the pass goes on undisturbed."""
    cache = _native.KvCache(1, 128, [(1, 256, 128)])
    program = _native.Program(pool(1), _native.Workspace(), 128, 0)
    x = program.embedding(matrix("F32", 4, 256), 1.0)
    for _ in range(200):
        x = program.attention(x, x, x, cache, 0, 1, 0.1)
    program.finish()
    started, stop = threading.Event(), threading.Event()
    zeros, positions = ids([0] * 128), ids(list(range(128)))

    def run() -> None:
        while not stop.is_set():
            started.set()
            program.run(zeros, positions, zeros, ids([]))

    runner = threading.Thread(target=run)
    runner.start()
    started.wait()
    refusals: set[str] = set()
    while runner.is_alive() and not refusals:
        try:
            cache.save(0, 0, 16)
        except RuntimeError as error:
            refusals.add(str(error))
    stop.set()
    runner.join()
    assert refusals == {"KV cache: a pass or a copy is running on it"}
    assert any(cache.save(0, 0, 16))
