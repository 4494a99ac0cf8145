"""The end of the context: a prompt that fills it is refused by the numbers, an answer that reaches it ends there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adversarial_drafters import OracleDrafter
from verispec.conformance.parity import Case, first_difference
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.errors import ContextOverflowError
from verispec.evidence.verify import Verdict, verify

CONTEXT = 64
PROMPT = (
    "one two three four five six, one two three four five six, one two three four five six, one two three "
)
PROMPT += "four five six, one two three four five six, one two"
SPECULATION: list[dict[str, Any]] = [
    {"spec_mode": "auto"},
    *({"spec_mode": "suffix", "spec_draft_policy": "fixed", "spec_draft_max": width} for width in (2, 7, 15)),
]


@pytest.fixture(scope="module")
def small(smollm2_path: Path) -> Iterator[Model]:
    with load(smollm2_path, ctx=CONTEXT, threads=2) as model:
        yield model


def assert_same(reference: Completion, found: Completion) -> None:
    assert first_difference(Case(0, found.strategy, 0, 0, 0.0), reference, found) is None


@pytest.mark.parametrize("length", [CONTEXT, CONTEXT + 1, 3 * CONTEXT])
@pytest.mark.parametrize("mode", ["off", "suffix"])
def test_a_prompt_that_leaves_no_room_is_refused(small: Model, mode: str, length: int) -> None:
    with pytest.raises(ContextOverflowError, match=rf"fewer than {CONTEXT} tokens .*found {length};.*ctx"):
        small.generate([30] * length, spec_mode=mode, max_tokens=1)
    assert len(small.generate([30] * (CONTEXT - 1), spec_mode=mode).tokens) == 1


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_an_answer_ends_with_the_context(small: Model, temperature: float) -> None:
    options: dict[str, Any] = {"ignore_eos": True, "temperature": temperature, "seed": 2, "logprobs": 1}
    reference = small.generate(PROMPT, spec_mode="off", **options)
    room = CONTEXT - len(reference.prompt_tokens)
    assert reference.finish_reason == "context"
    assert len(reference.tokens) == room > 8
    for speculation in SPECULATION:
        assert_same(reference, small.generate(PROMPT, **speculation, **options))
    more = small.generate(PROMPT, max_tokens=room + 1, **SPECULATION[-1], **options)
    assert_same(reference, more)
    exact = small.generate(PROMPT, max_tokens=room, **SPECULATION[-1], **options)
    assert (exact.finish_reason, exact.tokens) == ("length", reference.tokens)


def test_a_receipt_of_an_answer_that_filled_the_context_is_verified(small: Model) -> None:
    found = small.generate(PROMPT, ignore_eos=True, spec_mode="suffix")
    receipt = small.receipt(found, include_text=True)
    assert receipt.replayed["output"]["finish_reason"] == "context"
    assert verify(receipt, lambda facts: ModelReplayer(small)).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("room", [1, 2, 3, 9, 15, 16, 17, 18])
def test_the_context_ends_inside_a_block(small: Model, room: int) -> None:
    """A drafter that is always right and would go on past the end, at every distance from it."""
    prompt = (small.tokenizer.encode(PROMPT) * 2)[: CONTEXT - room]
    assert len(prompt) == CONTEXT - room
    reference = small.generate(prompt, spec_mode="off", ignore_eos=True)
    oracle = OracleDrafter([*prompt, *reference.tokens, *[30] * 16])
    found = small.generate(
        prompt, drafter=oracle, ignore_eos=True, spec_draft_policy="fixed", spec_draft_max=15
    )
    assert_same(reference, found)
    assert found.finish_reason == "context"
    assert found.faults == ()
    assert found.passes == (room + 15) // 16
