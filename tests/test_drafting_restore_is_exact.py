"""A drafter proposes what its committed tokens say, however it came by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verispec.drafting.contract import Drafter, check_proposal
from verispec.drafting.ngram_context import NgramContextDrafter
from verispec.drafting.prompt_lookup import PromptLookupDrafter
from verispec.drafting.suffix import SuffixDrafter

MAKERS: dict[str, Callable[[], Drafter]] = {
    "suffix": SuffixDrafter,
    "prompt-lookup": PromptLookupDrafter,
    "prompt-lookup, frequent": lambda: PromptLookupDrafter(choice="frequent"),
    "prompt-lookup, from 2": lambda: PromptLookupDrafter(2, 3),
    "ngram-context": NgramContextDrafter,
    "ngram-context, from 2": lambda: NgramContextDrafter(2, 3),
}
TOKENS = st.lists(st.integers(0, 3), max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("observe"), TOKENS),
        st.tuples(st.just("propose"), st.integers(0, 16)),
        st.tuples(st.just("checkpoint"), st.none()),
        st.tuples(st.just("restore"), st.integers(0, 5)),
    ),
    max_size=30,
)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
@given(steps=STEPS)
@settings(deadline=None, max_examples=50)
def test_any_history_of_calls_equals_a_fresh_drafter(
    maker: Callable[[], Drafter], steps: list[tuple[str, Any]]
) -> None:
    drafter, committed = maker(), list[int]()
    marks: list[tuple[object, int]] = []
    for step, argument in steps:
        if step == "observe":
            drafter.observe(argument)
            committed += argument
        elif step == "checkpoint":
            marks.append((drafter.checkpoint(), len(committed)))
        elif step == "restore" and marks:
            index = argument % len(marks)
            mark, length = marks[index]
            drafter.restore(mark)
            del committed[length:], marks[index + 1 :]
        elif step == "propose":
            drafter.propose(argument)
    fresh = maker()
    fresh.observe(committed)
    assert drafter.propose(15) == fresh.propose(15)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
@given(tokens=st.lists(st.integers(0, 3), max_size=60), limit=st.integers(0, 20))
@settings(deadline=None, max_examples=50)
def test_proposals_keep_the_contract(maker: Callable[[], Drafter], tokens: list[int], limit: int) -> None:
    drafter = maker()
    drafter.observe(tokens)
    proposal = drafter.propose(limit)
    check_proposal(proposal, limit, 4)
    assert set(proposal.tokens) <= set(tokens)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_a_narrower_proposal_is_the_beginning_of_a_wider_one(maker: Callable[[], Drafter]) -> None:
    drafter = maker()
    drafter.observe([1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3])
    wide = drafter.propose(15)
    assert len(wide) == 15
    assert all(drafter.propose(limit) == wide.first(limit) for limit in range(16))


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_a_mark_from_the_future_is_refused(maker: Callable[[], Drafter]) -> None:
    drafter = maker()
    drafter.observe([1, 2, 3])
    with pytest.raises(ValueError, match="at most 3, found 4"):
        drafter.restore(4)


@pytest.mark.parametrize("p_min", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("kind", [SuffixDrafter, PromptLookupDrafter, NgramContextDrafter])
def test_no_token_is_offered_under_p_min(kind: Callable[..., Drafter], p_min: float) -> None:
    everything, confident = kind(p_min=0.0), kind(p_min=p_min)
    tokens = [1, 2, 3, 1, 2, 4, 1, 2, 3, 5, 6, 1, 2]
    for drafter in (everything, confident):
        drafter.observe(tokens)
    whole = everything.propose(15)
    kept = next((i for i, c in enumerate(whole.confidences) if c < p_min), len(whole))
    offered = confident.propose(15)
    assert list(offered.tokens) == list(whole.tokens[:kept])
    assert list(offered.confidences) == list(whole.confidences[:kept])
