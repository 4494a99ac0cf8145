"""C2: token ids, text, logprobs and finish reason do not depend on strategy, width, policy, chunking or
reuse.
"""

from __future__ import annotations

from typing import Any

import pytest

from adversarial_drafters import (
    EmptyDrafter,
    OracleDrafter,
    OutOfVocabularyDrafter,
    RaisingDrafter,
    SlowDrafter,
    TooLongDrafter,
    WrongAtDrafter,
    WrongDrafter,
)
from verispec.conformance.parity import Case, first_difference, run_parity
from verispec.engine.completion import Completion
from verispec.engine.model import Model

COPYING = (
    "Names: Ada Lovelace, Alan Turing, Grace Hopper.\nNames: Ada Lovelace, Alan Turing, Grace Hopper.\n"
    "Names: Ada Lovelace,"
)
PROSE = "The three most important things about a lighthouse are"
SAMPLINGS: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.2},
    {"presence_penalty": 0.6, "frequency_penalty": 0.4},
    {"logit_bias": {30: 4.0, 28: -6.0}},
    {"top_k": 20, "top_p": 0.9},
    {"min_p": 0.05},
]


@pytest.fixture(params=["smollm2", "gemma3"])
def model(request: pytest.FixtureRequest) -> Model:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Model)
    return found


@pytest.mark.parametrize("logprobs", [None, 3])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda sampling: "+".join(sampling) or "plain")
def test_every_strategy_width_seed_and_temperature_gives_the_text_of_off(
    model: Model, sampling: dict[str, Any], logprobs: int | None
) -> None:
    report = run_parity(
        model,
        [COPYING, PROSE],
        ("prompt-lookup", "ngram-context", "suffix"),
        (1, 3, 15),
        (0,),
        (0.0, 0.8),
        20,
        logprobs,
        sampling,
    )
    assert report.first_differences == []
    assert report.identical == report.cases == 36


def assert_same(reference: Completion, found: Completion) -> None:
    assert first_difference(Case(0, "", 0, 0, 0.0), reference, found) is None


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_adversarial_drafters_change_nothing_but_counters(smollm2: Model, temperature: float) -> None:
    options: dict[str, Any] = {"max_tokens": 24, "temperature": temperature, "seed": 11, "logprobs": 1}
    reference = smollm2.generate(COPYING, spec_mode="off", **options)
    text = [*reference.prompt_tokens, *reference.tokens]
    vocabulary = smollm2.backend.capabilities.vocabulary
    drafters = [
        EmptyDrafter(),
        OracleDrafter(text),
        WrongDrafter(text, vocabulary),
        *(WrongAtDrafter(text, vocabulary, place) for place in (1, 3, 7)),
        TooLongDrafter(),
        OutOfVocabularyDrafter(vocabulary),
        OutOfVocabularyDrafter(-1),
        RaisingDrafter(text, "propose"),
        RaisingDrafter(text, "observe", [1]),
        RaisingDrafter(text, "checkpoint", [2]),
        RaisingDrafter(text, "propose", [0, 2]),
    ]
    for drafter in drafters:
        for width in (1, 7):
            for policy in ("fixed", "adaptive"):
                found = smollm2.generate(
                    COPYING, drafter=drafter, spec_draft_max=width, spec_draft_policy=policy, **options
                )
                assert_same(reference, found)
                drafter = type(drafter)(**_arguments(drafter))


def _arguments(drafter: Any) -> dict[str, Any]:
    """What a fresh drafter of the same kind is made with."""
    names = type(drafter).__init__.__code__.co_varnames[1 : type(drafter).__init__.__code__.co_argcount]
    return {name: getattr(drafter, name) for name in names}


def test_a_right_drafter_is_accepted_whole(smollm2: Model) -> None:
    reference = smollm2.generate(PROSE, spec_mode="off", max_tokens=33)
    oracle = OracleDrafter([*reference.prompt_tokens, *reference.tokens])
    found = smollm2.generate(
        PROSE, drafter=oracle, max_tokens=33, spec_draft_max=7, spec_draft_policy="fixed"
    )
    assert_same(reference, found)
    assert found.rounds == ((7, 7),) * 4 + ((0, 0),)


def test_a_late_drafter_is_discarded_counted_and_switched_off(smollm2: Model) -> None:
    reference = smollm2.generate(PROSE, spec_mode="off", max_tokens=12)
    slow = SlowDrafter([*reference.prompt_tokens, *reference.tokens], 0.02)
    found = smollm2.generate(PROSE, drafter=slow, max_tokens=12, drafter_deadline=0.001)
    assert_same(reference, found)
    assert len(found.faults) == 3
    assert all("took longer than 0.001 s" in fault for fault in found.faults)


@pytest.mark.parametrize(("mode", "reuses"), [("suffix", True), ("auto", False)])
def test_prompt_chunks_and_kept_state_change_nothing(smollm2: Model, mode: str, reuses: bool) -> None:
    """A head's entries are known to where the text ended: going back within it is reading it again."""
    long_prompt = "The tide came in and the tide went out. " * 40
    reference = smollm2.generate(long_prompt, spec_mode="off", max_tokens=16, logprobs=2)
    conversation = smollm2.conversation()
    for prompt in (long_prompt[:700], long_prompt, long_prompt):
        options = {"max_tokens": 16, "logprobs": 2, "spec_mode": mode}
        with smollm2.start(prompt, conversation, options) as generation:
            found = generation.result()
    conversation.close()
    assert found.counters.reused_tokens == (len(found.prompt_tokens) - 1 if reuses else 0)
    assert_same(reference, found)


def test_parallel_generations_do_not_touch_each_other(smollm2: Model) -> None:
    prompts = [COPYING, PROSE, COPYING[:40]]
    alone = [smollm2.generate(prompt, max_tokens=16) for prompt in prompts]
    running = [smollm2.stream(prompt, max_tokens=16) for prompt in prompts]
    for _ in range(40):
        for generation in running:
            next(generation, None)
    for reference, generation in zip(alone, running, strict=True):
        assert_same(reference, generation.result())
