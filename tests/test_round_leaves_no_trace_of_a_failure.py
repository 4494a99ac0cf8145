"""The seventh step: after a failure or a cancel at any step of any round, a request goes on as if nothing happened."""

from __future__ import annotations

from typing import Any

import pytest

from adversarial_drafters import RaisingDrafter
from verispec.conformance.faults import STEPS, FaultInjector, InjectedFaultError, resume_after_fault
from verispec.conformance.parity import Case, first_difference
from verispec.engine.model import Model
from verispec.errors import DrafterFaultError

PROMPT = "one two three four five, one two three four five, one two three"
OPTIONS: dict[str, Any] = {
    "max_tokens": 24,
    "temperature": 0.6,
    "seed": 5,
    "logprobs": 2,
    "frequency_penalty": 0.1,
    "spec_mode": "suffix",
    "spec_draft_max": 5,
    "spec_draft_policy": "fixed",
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_of_any_round_is_invisible(smollm2: Model, step: str, after: bool) -> None:
    reference = smollm2.generate(PROMPT, **OPTIONS)
    last = len(reference.rounds) - 1
    for index in sorted({0, last // 2, last}):
        found = resume_after_fault(smollm2.stream(PROMPT, **OPTIONS), step, index, after)
        assert first_difference(Case(0, step, 5, 5, 0.6), reference, found) is None
        assert found.rounds == reference.rounds


@pytest.mark.parametrize("step", STEPS[:-1])
def test_a_request_dropped_after_a_fault_leaves_the_model_clean(smollm2: Model, step: str) -> None:
    reference = smollm2.generate(PROMPT, **OPTIONS)
    generation = smollm2.stream(PROMPT, **OPTIONS)
    injector = FaultInjector(generation.request, step, 1, True)
    with pytest.raises(InjectedFaultError):
        generation.result()
    generation.close()
    assert injector.fired == 1
    again = smollm2.generate(PROMPT, **OPTIONS)
    assert first_difference(Case(0, step, 5, 5, 0.6), reference, again) is None


def test_a_cancel_takes_effect_between_passes_and_keeps_what_was_written(smollm2: Model) -> None:
    reference = smollm2.generate(PROMPT, **OPTIONS)
    generation = smollm2.stream(PROMPT, **OPTIONS)
    first = next(generation)
    generation.cancel()
    assert next(generation, None) is None
    cancelled = generation.result()
    assert cancelled.finish_reason == "cancelled"
    assert cancelled.tokens == first.tokens == reference.tokens[: len(first.tokens)]


def test_closing_gives_the_sequence_back(smollm2: Model) -> None:
    for _ in range(smollm2.backend.capabilities.sequences + 2):
        generation = smollm2.stream(PROMPT, max_tokens=4)
        next(generation)
        generation.close()
    assert smollm2.generate(PROMPT, max_tokens=4).finish_reason == "length"


def test_a_strict_drafter_fails_the_request(smollm2: Model) -> None:
    reference = smollm2.generate(PROMPT, spec_mode="off", max_tokens=8)
    drafter = RaisingDrafter([*reference.prompt_tokens, *reference.tokens], "propose")
    with pytest.raises(DrafterFaultError, match="propose"):
        smollm2.generate(PROMPT, drafter=drafter, strict_drafter=True, max_tokens=8)
