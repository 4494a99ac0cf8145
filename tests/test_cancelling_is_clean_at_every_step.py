"""A cancel from inside any step of any round ends the request between two passes and spoils nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from verispec.conformance.faults import STEPS, FaultInjector, InjectedFaultError
from verispec.conformance.parity import Case, first_difference
from verispec.engine.completion import Completion
from verispec.engine.generation import Generation
from verispec.engine.model import Model
from verispec.engine.shared_pass import Step

PROMPT = "red green blue, red green blue, red green"
OPTIONS: dict[str, Any] = {
    "max_tokens": 12,
    "temperature": 0.5,
    "seed": 9,
    "logprobs": 1,
    "spec_mode": "suffix",
    "spec_draft_max": 4,
    "spec_draft_policy": "fixed",
}


@pytest.fixture(scope="module")
def reference(smollm2: Model) -> Completion:
    completion = smollm2.generate(PROMPT, **OPTIONS)
    assert completion.accepted > 0
    assert len(completion.rounds) >= 3
    return completion


def cancel_inside(generation: Generation, step: str, round_index: int, after: bool) -> None:
    """Makes ``step`` of round ``round_index`` cancel the generation before or after its own work."""
    owner: Any = generation.request.sampler if step == "sample" else generation.request
    original: Callable[..., Any] = getattr(owner, step)

    def cancelling(*arguments: Any) -> Any:
        due = len(generation.request.emissions) >= round_index
        if due and not after:
            generation.cancel()
        result = original(*arguments)
        if due and after:
            if step == "evaluate":  # its work is done when the pass is
                return cancel_behind(generation, result)
            generation.cancel()
        return result

    setattr(owner, step, cancelling)


def cancel_behind(generation: Generation, evaluating: Step[Any]) -> Step[Any]:
    evaluation = yield from evaluating
    generation.cancel()
    return evaluation


def run_out(generation: Generation) -> Completion:
    while True:
        try:
            return generation.result()
        except InjectedFaultError:
            continue


def assert_every_sequence_is_free(model: Model) -> None:
    backend = model.backend
    for sequence in [backend.open_sequence() for _ in range(backend.capabilities.sequences)]:
        backend.close_sequence(sequence)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_cancel_at_any_step_keeps_whole_rounds(
    smollm2: Model, reference: Completion, step: str, after: bool
) -> None:
    last = len(reference.rounds) - 1
    for index in (0, last // 2, last):
        generation = smollm2.stream(PROMPT, **OPTIONS)
        cancel_inside(generation, step, index, after)
        if step == "restore":  # only a failing round restores anything
            FaultInjector(generation.request, "emit", index, True)
        found = run_out(generation)
        rounds = index if step == "restore" else index + 1
        assert found.rounds == reference.rounds[:rounds]
        assert found.tokens == reference.tokens[: len(found.tokens)]
        assert found.logprobs == (reference.logprobs or ())[: len(found.tokens)]
        assert reference.text.startswith(found.text)
        complete = rounds == len(reference.rounds)
        assert found.finish_reason == (reference.finish_reason if complete else "cancelled")
        assert_every_sequence_is_free(smollm2)
    assert first_difference(Case(0, step, 4, 9, 0.5), reference, smollm2.generate(PROMPT, **OPTIONS)) is None


def test_a_cancel_before_the_first_round_gives_nothing(smollm2: Model, reference: Completion) -> None:
    generation = smollm2.stream(PROMPT, **OPTIONS)
    generation.cancel()
    found = generation.result()
    assert (found.tokens, found.text, found.finish_reason, found.passes) == ((), "", "cancelled", 0)
    assert_every_sequence_is_free(smollm2)


def test_a_cancel_between_chunks_of_the_prompt_stops_there(smollm2: Model) -> None:
    generation = smollm2.stream("The tide came in and the tide went out. " * 20, max_tokens=4)
    original = generation.request.process_prompt

    def cancelling(chunk: int) -> Step[None]:
        generation.cancel()
        return original(chunk)

    generation.request.process_prompt = cancelling  # type: ignore[method-assign]
    found = generation.result()
    assert (found.tokens, found.finish_reason, found.counters.prompt_passes) == ((), "cancelled", 1)
    assert_every_sequence_is_free(smollm2)
