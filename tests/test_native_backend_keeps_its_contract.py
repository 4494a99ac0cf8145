"""The native backend's slots, rollback, limits and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tiny_models import VOCABULARY, TinyModel, write_model
from verispec.backends.contract import Row, chain
from verispec.backends.native import NativeBackend
from verispec.backends.native_plan import plan_model
from verispec.errors import (
    ArtifactError,
    BackendError,
    ContextOverflowError,
    MemoryLimitError,
    OptionError,
    UnsupportedError,
)
from verispec.models.memory import available_memory, check_memory
from verispec.ops.native import PassKind

SLIDING = TinyModel("gemma3", matrices="Q8_0", window=24, period=2, layers=2, context=1024)
TOKENS = np.random.default_rng(7).integers(0, VOCABULARY, 1024).tolist()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "sliding.gguf"
    write_model(made, SLIDING)
    return made


@pytest.fixture
def backend(path: Path) -> Iterator[NativeBackend]:
    made = NativeBackend.load(path, ctx=512, threads=1)
    yield made
    made.close()


def fill(backend: NativeBackend, sequence: int, length: int) -> None:
    start = backend.length(sequence)
    backend.evaluate(chain(sequence, start, TOKENS[start:length]), (), False)
    backend.commit(sequence, length)


def next_logits(backend: NativeBackend, sequence: int) -> bytes:
    length = backend.length(sequence)
    found = backend.evaluate(chain(sequence, length, TOKENS[length : length + 1]), [0], True)
    assert found.logits is not None
    return found.logits.tobytes()


def test_capabilities_and_identity(backend: NativeBackend, path: Path) -> None:
    capable = backend.capabilities
    assert (capable.exactness, capable.context, capable.layers) == ("exact", 512, 2)
    assert capable.rollback >= 128
    assert capable.taps == (-1, 0, 1, 2)
    identity = backend.identity()
    assert identity["artifact_sha256"] == plan_model(path).file.sha256()
    assert identity["architecture"] == "gemma3"


@pytest.mark.parametrize("length", [1, 24, 100, 300, 380])
def test_rejected_rows_leave_no_trace(backend: NativeBackend, length: int) -> None:
    """Whatever was evaluated and not committed, the next logits are those of a sequence that never saw it."""
    sequence = backend.open_sequence()
    fill(backend, sequence, length)
    expected = next_logits(backend, sequence)
    for rejected in (1, 15, 127, 128):
        wrong = [(token + 1) % VOCABULARY for token in TOKENS[:rejected]]
        kept = backend.checkpoint(sequence)
        backend.evaluate(chain(sequence, length, wrong), range(rejected), False)
        backend.restore(kept)
        assert next_logits(backend, sequence) == expected
        backend.evaluate(chain(sequence, length, wrong), range(rejected), False)
        backend.commit(sequence, length)
        assert next_logits(backend, sequence) == expected


def test_a_part_of_a_pass_can_be_kept(backend: NativeBackend) -> None:
    sequence, other = backend.open_sequence(), backend.open_sequence()
    fill(backend, other, 57)
    backend.evaluate(chain(sequence, 0, TOKENS[:57] + TOKENS[:20]), (), False)
    backend.commit(sequence, 57)
    assert next_logits(backend, sequence) == next_logits(backend, other)


def test_a_checkpoint_never_brings_back_other_tokens(backend: NativeBackend) -> None:
    sequence = backend.open_sequence()
    fill(backend, sequence, 20)
    early = backend.checkpoint(sequence)
    fill(backend, sequence, 40)
    late = backend.checkpoint(sequence)
    expected = next_logits(backend, sequence)
    fill(backend, sequence, 60)
    backend.restore(late)
    assert next_logits(backend, sequence) == expected
    backend.restore(early)
    assert backend.length(sequence) == 20
    backend.restore(late)  # positions 20 to 39 are still the ones it knew
    assert next_logits(backend, sequence) == expected
    backend.restore(early)
    backend.evaluate(chain(sequence, 20, [1, 2, 3]), (), False)
    with pytest.raises(BackendError, match="found them evaluated anew"):
        backend.restore(late)
    backend.restore(early)
    backend.close_sequence(sequence)
    assert backend.open_sequence() == sequence
    with pytest.raises(BackendError, match="expected the 20 positions of the checkpoint"):
        backend.restore(early)


def test_a_window_forgets_and_says_how_far(backend: NativeBackend) -> None:
    sequence, other = backend.open_sequence(), backend.open_sequence()
    assert backend.oldest_length(sequence) == 0
    fill(backend, sequence, 450)
    oldest = backend.oldest_length(sequence)
    assert 0 < oldest <= 450 - backend.capabilities.rollback
    with pytest.raises(BackendError, match=f"expected length 0 or at least {oldest}, found {oldest - 1}"):
        backend.commit(sequence, oldest - 1)
    backend.commit(sequence, oldest)
    fill(backend, other, oldest)
    assert next_logits(backend, sequence) == next_logits(backend, other)
    assert backend.oldest_length(sequence) == oldest
    backend.commit(sequence, 0)
    fill(backend, sequence, 30)
    backend.commit(other, 0)
    fill(backend, other, 30)
    assert next_logits(backend, sequence) == next_logits(backend, other)
    assert backend.oldest_length(sequence) == 0


def test_uncommitted_prompts_that_displace_their_own_prefix_are_refused(backend: NativeBackend) -> None:
    sequence = backend.open_sequence()
    fill(backend, sequence, 100)
    backend.evaluate(chain(sequence, 100, TOKENS[100:400]), (), False)
    with pytest.raises(BackendError, match="evaluated again"):
        backend.evaluate(chain(sequence, 100, TOKENS[100:101]), [0], False)
    backend.commit(sequence, 0)
    fill(backend, sequence, 3)


def test_a_reused_slot_is_a_fresh_one(backend: NativeBackend) -> None:
    sequence = backend.open_sequence()
    fill(backend, sequence, 10)
    expected = next_logits(backend, sequence)
    backend.close_sequence(sequence)
    again = backend.open_sequence()
    assert (again, backend.length(again)) == (sequence, 0)
    fill(backend, again, 10)
    assert next_logits(backend, again) == expected


def test_long_lists_of_rows_give_every_output_and_tap(backend: NativeBackend) -> None:
    sequence = backend.open_sequence()
    rows = chain(sequence, 0, TOKENS[:300])
    whole = backend.evaluate(rows, range(0, 300, 3), True, (2, -1))
    assert whole.logits is not None
    assert whole.logits.shape == (100, VOCABULARY)
    assert whole.hidden[2].shape == whole.hidden[-1].shape == (300, SLIDING.hidden)
    assert whole.argmax == whole.logits.argmax(axis=1).tolist()
    assert backend.evaluate(rows, range(0, 300, 3), False).argmax == whole.argmax
    assert backend.evaluate(rows, (), True).logits is None


def test_rows_that_do_not_follow_are_refused(backend: NativeBackend) -> None:
    sequence, other = backend.open_sequence(), backend.open_sequence()
    fill(backend, sequence, 5)
    with pytest.raises(UnsupportedError, match="tree-rows"):
        backend.evaluate([*chain(sequence, 5, [1, 2]), Row(sequence, 6, 3, 0)], (), False)
    refused = {
        "expected position 5": chain(sequence, 6, [1]),
        "expected position 6": [Row(sequence, 5, 1, -1), Row(sequence, 5, 1, 0)],
        "expected parent 0": [Row(sequence, 5, 1, -1), Row(sequence, 6, 1, 7)],
        "expected a token in 0..79": chain(sequence, 5, [VOCABULARY]),
        "expected an open one": chain(3, 0, [1]),
        "at least one": [],
    }
    for message, rows in refused.items():
        with pytest.raises(BackendError, match=message):
            backend.evaluate(rows, (), False)
    for outputs in ([1, 0], [0, 0], [2], [-1]):
        with pytest.raises(BackendError, match="ascending"):
            backend.evaluate(chain(sequence, 5, [1, 2]), outputs, False)
    with pytest.raises(BackendError, match="taps"):
        backend.evaluate(chain(sequence, 5, [1]), (), False, [9])
    with pytest.raises(BackendError, match=r"expected a length in 0..5"):
        backend.commit(sequence, 6)
    assert (backend.length(sequence), backend.length(other)) == (5, 0)


def test_the_context_has_an_end(backend: NativeBackend) -> None:
    sequence = backend.open_sequence()
    fill(backend, sequence, 511)
    next_logits(backend, sequence)
    with pytest.raises(ContextOverflowError, match="position below 512"):
        backend.evaluate(chain(sequence, 511, [1, 2]), (), False)


def test_sequences_are_counted(backend: NativeBackend) -> None:
    opened = [backend.open_sequence() for _ in range(backend.capabilities.sequences)]
    with pytest.raises(BackendError, match="at most 4 open"):
        backend.open_sequence()
    backend.close_sequence(opened[2])
    assert backend.open_sequence() == opened[2]


def test_a_closed_backend_says_so(path: Path) -> None:
    backend = NativeBackend.load(path, ctx=64, threads=1)
    sequence = backend.open_sequence()
    backend.close()
    backend.close()
    with pytest.raises(BackendError, match="closed"):
        backend.evaluate(chain(sequence, 0, [1]), [0], False)


def test_options_out_of_range_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, message in (
        ({"ctx": 0}, "ctx: expected 1 to 1024"),
        ({"ctx": 1025}, "ctx: expected 1 to 1024"),
        ({"threads": 0}, "threads: expected 1 to 256"),
        ({"sequences": 0}, "sequences: expected 1 to"),
    ):
        with pytest.raises(OptionError, match=message):
            NativeBackend.load(path, **options)
    monkeypatch.setenv("VERISPEC_ISA", "sse9")
    with pytest.raises(OptionError, match="sse9"):
        NativeBackend.load(path)


def test_memory_is_stated_before_it_is_taken(path: Path) -> None:
    plan = plan_model(path, 1024, sequences=8)
    full, sliding = 1024, 24 + 128 + 8  # whole blocks of 16
    assert plan.need.cache == (full + sliding) * 2 * 2 * 64 * 2 * 8
    with pytest.raises(MemoryLimitError, match=r"context of 1024 positions and 8 sequences"):
        check_memory(plan.need, plan.limits, plan.need.total - 1)
    check_memory(plan.need, plan.limits, plan.need.total)
    assert available_memory() > 0


def test_a_pass_fits_the_workspace_that_was_stated(path: Path) -> None:
    plan = plan_model(path)
    backend = NativeBackend(plan, threads=2)
    passes = backend._passes
    assert passes is not None
    for rows, outputs, logits in ((128, 0, False), (128, 128, False), (32, 32, True)):
        program = passes.program(PassKind(rows, outputs, logits, frozenset()))
        assert program.workspace_bytes <= plan.need.workspace
    backend.close()


def test_a_file_without_an_embedding_is_refused(tmp_path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "empty.gguf", "llama")
    writer.add_tensor("other", np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ArtifactError, match=r"tensor token_embd.weight: expected a matrix, found none"):
        NativeBackend.load(tmp_path / "empty.gguf")
