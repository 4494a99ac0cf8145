"""A drafter is advice even when it is hostile: it may keep lists, change them, and offer things that are no numbers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from adversarial_drafters import OracleDrafter, RaisingDrafter
from verispec.drafting.contract import Proposal
from verispec.engine.draft_width import FixedWidth
from verispec.engine.guarded_drafter import GuardedDrafter
from verispec.engine.model import Model
from verispec.errors import DrafterFaultError, OptionError

PROMPT = "one two three four five, one two three four five, one two three"


class KeepingDrafter(OracleDrafter):
    """Changes every list it was given or gave, whenever it is called."""

    name = "keeping"

    def __init__(self, text: Sequence[int]) -> None:
        super().__init__(text)
        self.kept: list[list[Any]] = []

    def observe(self, tokens: Sequence[int]) -> None:
        super().observe(tokens)
        self.spoil()
        if isinstance(tokens, list):
            self.kept.append(tokens)

    def propose(self, limit: int) -> Proposal:
        self.spoil()
        proposal = super().propose(limit)
        self.kept += [proposal.tokens, proposal.confidences]
        return proposal

    def checkpoint(self) -> int:
        self.spoil()
        return super().checkpoint()

    def spoil(self) -> None:
        for one in self.kept:
            one[:] = [-1] * (len(one) + 1)


class OddDrafter(OracleDrafter):
    """Offers ``proposal`` in place of what it knows."""

    name = "odd"

    def __init__(self, text: Sequence[int], proposal: Any) -> None:
        super().__init__(text)
        self.proposal = proposal

    def propose(self, limit: int) -> Any:
        return self.proposal


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class UnprintableDrafter(OracleDrafter):
    name = "unprintable"

    def __init__(self, text: Sequence[int], error: Exception) -> None:
        super().__init__(text)
        self.error = error

    def propose(self, limit: int) -> Proposal:
        raise self.error


class Alike:
    """Looks like a proposal."""

    tokens = (5, 6)
    confidences = (1, True)


@pytest.mark.parametrize("policy", ["fixed", "adaptive"])
def test_hostile_drafters_change_nothing(smollm2: Model, policy: str) -> None:
    options: dict[str, Any] = {"max_tokens": 12, "temperature": 0.8, "seed": 2**64 - 1, "logprobs": 0}
    reference = smollm2.generate(PROMPT, spec_mode="off", **options)
    text = [*reference.prompt_tokens, *reference.tokens]
    odd = [
        None,
        Alike(),
        Proposal([5, 6], [Decimal("0.5"), Decimal(1)]),  # type: ignore[list-item]
        Proposal([5, 6], [0.5, float("nan")]),
        Proposal([5, 6], [0.5, "likely"]),  # type: ignore[list-item]
        Proposal([True], [1.0]),
        Proposal(np.array([5, 6]), np.array([1.0, 1.0])),  # type: ignore[arg-type]
    ]
    for drafter in (
        KeepingDrafter(text),
        UnprintableDrafter(text, UnprintableError()),
        UnprintableDrafter(text, ValueError("\ud800")),
        *(OddDrafter(text, proposal) for proposal in odd),
    ):
        found = smollm2.generate(PROMPT, drafter=drafter, spec_draft_policy=policy, **options)
        assert (found.tokens, found.text, found.logprobs) == (
            reference.tokens,
            reference.text,
            reference.logprobs,
        )
        smollm2.receipt(found).to_bytes()


def test_what_a_drafter_keeps_is_not_what_is_evaluated() -> None:
    drafter = KeepingDrafter(range(20))
    proposal = GuardedDrafter(drafter, FixedWidth(4), 100, False, 1.0).propose(4, [0, 1])
    drafter.spoil()
    assert (proposal.tokens, proposal.confidences) == ([2, 3, 4, 5], [1.0] * 4)


def test_a_strict_drafter_without_a_checkpoint_fails_the_request(smollm2: Model) -> None:
    drafter = RaisingDrafter([], "checkpoint", [0])
    with pytest.raises(DrafterFaultError, match="checkpoint"):
        smollm2.generate(PROMPT, drafter=drafter, strict_drafter=True, max_tokens=4)


def test_a_drafter_without_a_name_is_refused(smollm2: Model) -> None:
    drafter = OracleDrafter([])
    drafter.name = None  # type: ignore[assignment]
    with pytest.raises(OptionError, match="drafter: expected one with a name"):
        smollm2.generate(PROMPT, drafter=drafter, max_tokens=4)


def test_a_strict_drafter_that_cannot_go_back_fails_at_its_next_call() -> None:
    drafter = RaisingDrafter([1, 2, 3, 4, 5, 6], "restore")
    guarded = GuardedDrafter(drafter, FixedWidth(2), 10, True, 1.0)
    guarded.restore(guarded.checkpoint())
    with pytest.raises(DrafterFaultError, match="restore raised"):
        guarded.propose(2, [1, 2])
