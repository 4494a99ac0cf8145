"""Only committed, resident positions become a block, and a block goes only where it belongs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from prefix_sequences import CONTEXT, KEPT, SLIDING, TOKENS, evaluated, extend, logits, saved
from tiny_models import write_model
from verispec.backends.contract import BackendAdapter, chain
from verispec.backends.native import PREFIX_BLOCK, NativeBackend
from verispec.errors import BackendError, UnsupportedError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "sliding.gguf"
    write_model(made, SLIDING)
    return made


@pytest.fixture
def backend(path: Path) -> Iterator[NativeBackend]:
    with closing(NativeBackend.load(path, threads=1)) as made:
        yield made


def test_rejected_rows_are_in_no_block(backend: NativeBackend) -> None:
    length = 3 * PREFIX_BLOCK
    expected = [block.state for block in saved(backend, TOKENS[:length])]
    sequence = evaluated(backend, TOKENS[: length - 5])
    backend.evaluate(chain(sequence, length - 5, [1] * 40), (), False)
    with pytest.raises(BackendError, match=f"expected {length} committed positions, found {length - 5}"):
        backend.save_block(sequence, 2)
    extend(backend, sequence, TOKENS[:length])
    backend.evaluate(chain(sequence, length, [1] * 40), (), False)
    assert [backend.save_block(sequence, index).state for index in range(3)] == expected


def test_a_block_that_a_window_displaced_is_refused(backend: NativeBackend) -> None:
    sequence = evaluated(backend, TOKENS[: PREFIX_BLOCK + KEPT])
    with pytest.raises(
        BackendError, match=f"positions 0 to 15 still held, .* keeps {KEPT} positions below 176"
    ):
        backend.save_block(sequence, 0)
    kept = backend.save_block(sequence, 1)
    backend.evaluate(chain(sequence, PREFIX_BLOCK + KEPT, [1]), (), False)  # rejected, but written
    with pytest.raises(BackendError, match="positions 16 to 31 still held"):
        backend.save_block(sequence, 1)
    assert kept.state == saved(backend, TOKENS[: 2 * PREFIX_BLOCK])[1].state


@pytest.mark.parametrize("window", [1, 16, 24, 33])
def test_blocks_saved_as_they_complete_are_never_displaced(tmp_path: Path, window: int) -> None:
    """Whatever the chunks, up to a whole pass of rows, and wherever they begin."""
    write_model(tmp_path / "model.gguf", replace(SLIDING, window=window))
    with closing(NativeBackend.load(tmp_path / "model.gguf", threads=1)) as backend:
        for chunk in (1, 31, 97, 113, 127, 128):
            assert len(saved(backend, TOKENS, chunk)) == CONTEXT // PREFIX_BLOCK


def test_blocks_that_do_not_belong_are_refused(backend: NativeBackend, tmp_path: Path) -> None:
    """And the sequence stays empty: the right ones can follow."""
    blocks = saved(backend, TOKENS[: 3 * PREFIX_BLOCK])
    write_model(tmp_path / "other.gguf", SLIDING, seed=1)
    with closing(NativeBackend.load(tmp_path / "other.gguf", threads=1)) as other:
        foreign = saved(other, TOKENS[:PREFIX_BLOCK])
    sequence = backend.open_sequence()
    refused = {
        "block 0: expected one of the layout": [*foreign, *blocks[1:]],
        "block 1: expected one of the layout": [blocks[0], replace(blocks[1], layout="another")],
        "block 1: expected blocks in order from 0, found block 2": [blocks[0], blocks[2]],
        "block 0: expected blocks in order from 0, found block 1": blocks[1:],
        r"at most 32 \(the context\), found 33": blocks * 11,
    }
    for message, wrong in refused.items():
        with pytest.raises(BackendError, match=message):
            backend.load_blocks(sequence, wrong)
        assert backend.length(sequence) == 0
    backend.load_blocks(sequence, [])
    backend.load_blocks(sequence, blocks)
    whole = evaluated(backend, TOKENS[:48])
    assert logits(backend, sequence, TOKENS[48:51]) == logits(backend, whole, TOKENS[48:51])


def test_blocks_are_loaded_into_an_empty_sequence_only(backend: NativeBackend) -> None:
    """Empty it is at first and when committed to length 0, whatever was evaluated and not committed."""
    blocks = saved(backend, TOKENS[:64])
    sequence = backend.open_sequence()
    backend.evaluate(chain(sequence, 0, TOKENS[100:400]), (), False)
    empty = backend.checkpoint(sequence)
    backend.load_blocks(sequence, blocks)
    after = backend.checkpoint(sequence)
    expected = logits(backend, sequence, TOKENS[64:66])
    with pytest.raises(BackendError, match="expected an empty one, found 64 positions"):
        backend.load_blocks(sequence, blocks)
    assert logits(backend, sequence, TOKENS[64:66]) == expected
    backend.restore(empty)
    backend.load_blocks(sequence, blocks[:1])
    with pytest.raises(BackendError, match="found them evaluated anew"):
        backend.restore(after)
    backend.commit(sequence, 0)
    backend.load_blocks(sequence, blocks)
    assert logits(backend, sequence, TOKENS[64:66]) == expected


def test_unknown_sequences_and_blocks_are_refused(backend: NativeBackend) -> None:
    blocks = saved(backend, TOKENS[:32])
    with pytest.raises(BackendError, match="sequence 0: expected an open one"):
        backend.load_blocks(0, blocks)
    with pytest.raises(BackendError, match="sequence 0: expected an open one"):
        backend.save_block(0, 0)
    sequence = evaluated(backend, TOKENS[:50])
    with pytest.raises(BackendError, match="at least 0, found -1"):
        backend.save_block(sequence, -1)
    with pytest.raises(BackendError, match="expected 64 committed positions, found 50"):
        backend.save_block(sequence, 3)
    backend.close()
    for refused in (lambda: backend.save_block(sequence, 0), lambda: backend.load_blocks(sequence, blocks)):
        with pytest.raises(BackendError, match="found a closed one"):
            refused()


def test_a_backend_without_blocks_says_so(backend: NativeBackend) -> None:
    for refused in (
        lambda: BackendAdapter.save_block(backend, 0, 0),
        lambda: BackendAdapter.load_blocks(backend, 0, []),
    ):
        with pytest.raises(UnsupportedError, match=r"prefix_block 0 \[prefix-blocks\]"):
            refused()
