"""The indexes of the n-gram strategies find what a search through the whole context finds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verispec._native import SuffixAutomaton
from verispec.drafting.confidence import copy_confidence
from verispec.drafting.ngram_context import NgramContextDrafter
from verispec.drafting.prompt_lookup import PromptLookupDrafter
from verispec.drafting.suffix import SuffixDrafter

TEXTS = st.integers(1, 4).flatmap(lambda size: st.lists(st.integers(0, size), max_size=30))


def matches(text: list[int], context: list[int]) -> tuple[list[int], int]:
    """Places in ``text`` after the longest suffix of ``context`` that something follows, and its length."""
    places, longest = list[int](), 0
    for end in range(1, len(text)):
        length = 0
        while length < min(end, len(context)) and text[end - 1 - length] == context[-1 - length]:
            length += 1
        if length > longest:
            places, longest = [], length
        if length == longest > 0:
            places.append(end)
    return places, longest


@given(text=TEXTS, min_match=st.integers(1, 3))
@settings(deadline=None)
def test_suffix_follows_the_longest_match_by_frequency(text: list[int], min_match: int) -> None:
    drafter = SuffixDrafter(min_match)
    drafter.observe(text)
    context, tokens, confidences = list(text), list[int](), list[float]()
    for _ in range(6):
        places, longest = matches(text, context)
        if longest < min_match:
            break
        following = Counter(text[place] for place in places)
        count = max(following.values())
        token = next(text[place] for place in reversed(places) if following[text[place]] == count)
        tokens.append(token)
        confidences.append(copy_confidence(count, len(places), longest))
        context.append(token)
    proposal = drafter.propose(6)
    assert list(proposal.tokens) == tokens
    assert list(proposal.confidences) == pytest.approx(confidences, rel=1e-12)


@given(text=TEXTS)
@settings(deadline=None)
def test_prompt_lookup_copies_the_latest_of_the_longest_matches(text: list[int]) -> None:
    drafter = PromptLookupDrafter(1, 2)
    drafter.observe(text)
    places, longest = matches(text, text)
    copied = text[places[-1] :] if places else []
    while copied and len(copied) < 6:
        copied += copied
    proposal = drafter.propose(6)
    assert list(proposal.tokens) == copied[:6]
    assert list(proposal.confidences) == [copy_confidence(1, 1, longest + i) for i in range(len(proposal))]


def test_prompt_lookup_can_prefer_the_frequent_continuation() -> None:
    text = [9, 1, 2, 9, 1, 2, 9, 1, 3, 9, 1]
    recent, frequent = PromptLookupDrafter(1, 2), PromptLookupDrafter(1, 2, "frequent")
    for drafter in (recent, frequent):
        drafter.observe([0, *text])
    assert recent.propose(1).tokens == [3]
    assert frequent.propose(1).tokens == [2]


@given(text=TEXTS)
@settings(deadline=None)
def test_ngram_context_backs_off_to_the_longest_known_context(text: list[int]) -> None:
    drafter = NgramContextDrafter(1, 3)
    drafter.observe(text)
    proposal = drafter.propose(1)
    for order in (3, 2, 1):
        context = text[-order:]
        following = Counter(
            text[end]
            for end in range(order, len(text))
            if text[end - order : end] == context and len(text) >= order
        )
        if following:
            assert following[proposal.tokens[0]] == max(following.values())
            return
    assert not proposal.tokens


def test_ngram_confidence_grows_with_what_was_seen() -> None:
    confidences = []
    for repeats in (1, 2, 4, 8):
        drafter = NgramContextDrafter()
        drafter.observe([1, 2, 3, 4] * repeats + [1])
        confidences.append(drafter.propose(1).confidences[0])
    assert confidences == sorted(set(confidences))
    assert confidences[-1] < 1.0


@pytest.mark.parametrize("match", [1, 2, 7, 64, 65, 500])
def test_both_languages_compute_one_confidence(match: int) -> None:
    for count, total in [(1, 1), (1, 4), (3, 5), (127, 254)]:
        assert SuffixAutomaton.confidence(count, total, match) == copy_confidence(count, total, match)


@pytest.mark.parametrize(
    "text", [[7] * 20_000, [1, 2] * 10_000, list(range(20_000))], ids=["one", "two", "all"]
)
def test_automaton_stays_small_on_any_text(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    automaton.extend(text)
    assert len(automaton) == len(text)
    assert automaton.states <= 2 * len(text) + 1
