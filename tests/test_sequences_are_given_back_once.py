"""However generations and conversations end, each gives back its own sequence, once, and no other's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.errors import BackendError
from verispec.evidence.verify import Verdict, verify

PROMPT = "one two three four five, one two three four five, one two three"


def assert_all_free(model: Model) -> None:
    open_now = [model.backend.open_sequence() for _ in range(model.backend.capabilities.sequences)]
    for sequence in open_now:
        model.backend.close_sequence(sequence)


def test_a_cancel_behind_the_end_changes_nothing(smollm2: Model) -> None:
    generation = smollm2.stream(PROMPT, max_tokens=20, stop=" two")
    for _ in generation:
        if generation.request.finish_reason is not None:
            break
    generation.cancel()
    found = generation.result()
    assert (found.finish_reason, found.stop_string) == ("stop", " two")
    replayer = ModelReplayer(smollm2)
    assert verify(smollm2.receipt(found, True), lambda _: replayer).verdict is Verdict.VERIFIED


def test_a_round_that_waited_for_a_close_does_not_run(smollm2: Model) -> None:
    generation = smollm2.stream(PROMPT, max_tokens=20)
    with smollm2.lock:
        waiting = threading.Thread(target=next, args=(generation, None))
        waiting.start()
        generation.close()
        other = smollm2.stream(PROMPT, max_tokens=2)
    waiting.join()
    assert generation.result().tokens == ()
    assert len(other.result().tokens) == 2


def test_a_conversation_closed_while_it_answers_lets_the_answer_end(smollm2: Model) -> None:
    reference = smollm2.conversation().send("Hello", max_tokens=8).result()
    conversation = smollm2.conversation()
    answer = conversation.send("Hello", max_tokens=8)
    next(answer)
    conversation.close()
    other = smollm2.stream(PROMPT, max_tokens=2)
    assert answer.result().tokens == reference.tokens
    assert len(other.result().tokens) == 2
    assert_all_free(smollm2)
    assert conversation.send("Hello again", max_tokens=2).result().counters.reused_tokens == 0
    conversation.close()


def test_a_finaliser_never_waits_for_the_model(smollm2: Model) -> None:
    """Collected while another thread is busy, a generation and a conversation are given back by whoever is next."""
    generation, conversation = smollm2.stream(PROMPT, max_tokens=20), smollm2.conversation()
    conversation.send("Hello", max_tokens=1).result()
    next(generation)
    held, dropped = threading.Event(), threading.Event()

    def keep_busy() -> None:
        with smollm2.lock:
            held.set()
            assert dropped.wait(30)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    assert held.wait(30)
    del generation, conversation  # would never return if it waited
    dropped.set()
    busy.join()
    with smollm2.lock:
        assert_all_free(smollm2)


def test_a_conversation_dropped_gives_its_sequence_back(smollm2: Model) -> None:
    for _ in range(smollm2.backend.capabilities.sequences + 1):
        smollm2.conversation().send("Hello", max_tokens=1).result()
    assert_all_free(smollm2)


@pytest.fixture
def closed(smollm2_path: Path) -> Iterator[Model]:
    with load(smollm2_path, ctx=64, threads=1) as model:
        yield model


def test_what_is_open_when_the_model_closes_can_still_be_closed(closed: Model) -> None:
    conversation = closed.conversation()
    answer = conversation.send("Hello", max_tokens=30)
    generation = closed.stream(PROMPT, max_tokens=30)
    next(generation)
    closed.close()
    for refused in (answer, generation):
        with pytest.raises(BackendError, match="closed"):
            next(refused)
        refused.close()
    conversation.close()
    for start in (closed.generate, closed.logits):
        with pytest.raises(BackendError, match="closed"):
            start(PROMPT)
