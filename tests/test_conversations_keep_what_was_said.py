"""A conversation: answers join it by themselves, its sequence comes back, what had to be evaluated again is counted."""

from __future__ import annotations

import gc

import pytest

from verispec.engine.model import Model
from verispec.engine.pass_timing import ASSUMED_COSTS


def test_answers_join_the_conversation_by_themselves(smollm2: Model) -> None:
    with smollm2.conversation() as conversation:
        first = conversation.send("Say a word.", max_tokens=6).result()
        assert conversation.messages[-1] == {"role": "assistant", "content": first.text}
        second = conversation.send("And another.", max_tokens=6)
        cut = next(second)
        second.close()
        assert [message["role"] for message in conversation.messages] == ["user", "assistant"] * 2
        assert conversation.messages[-1]["content"] == cut.text
        assert second.result().counters.reused_tokens > 0


def test_a_prefix_evaluated_again_is_counted(smollm2: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with smollm2.conversation() as conversation:
        assert conversation.send("Say a word.", max_tokens=4).result().counters.replays == 0
        assert conversation.send("And another.", max_tokens=4).result().counters.replays == 0
        monkeypatch.setattr(smollm2.backend, "holds", lambda sequence, length: False)
        third = conversation.send("And another.", max_tokens=4).result()
        assert (third.counters.replays, third.counters.reused_tokens) == (1, 0)
        assert smollm2.generate(conversation.messages[:-1], max_tokens=4).tokens == third.tokens


def test_a_dropped_conversation_gives_its_sequence_back(smollm2: Model) -> None:
    for _ in range(smollm2.backend.capabilities.sequences + 1):
        smollm2.conversation().send("Say a word.", max_tokens=2).result()
        gc.collect()
    assert smollm2.generate("one two", max_tokens=2).tokens


def test_an_adaptive_request_without_a_sequence_to_time_passes_on(
    smollm2: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"max_tokens": 4, "spec_mode": "suffix", "spec_draft_policy": "adaptive"}
    monkeypatch.setattr(smollm2, "_costs", None)
    with smollm2.conversation() as conversation:
        conversation.send("Say a word.", max_tokens=2, spec_mode="off").result()
        held = [smollm2.backend.open_sequence() for _ in range(smollm2.backend.capabilities.sequences - 1)]
        try:
            assert conversation.send("And another.", **options).result().pass_costs is ASSUMED_COSTS
        finally:
            for sequence in held:
                smollm2.backend.close_sequence(sequence)
        assert conversation.send("A third.", **options).result().pass_costs is smollm2.pass_costs()
        assert smollm2.pass_costs() is not ASSUMED_COSTS
