"""Draft widths: as wide as pays by measured cost, never costly, back up when the text turns predictable."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversarial_drafters import EmptyDrafter, OracleDrafter, WrongAtDrafter, WrongDrafter
from verispec.drafting.contract import Drafter, Proposal
from verispec.engine.adaptive_width import AdaptiveWidth
from verispec.engine.draft_width import FixedWidth, WidthPolicy
from verispec.engine.pass_cost import CostTable

VOCABULARY = 50
FLAT = CostTable({0: {1: 3.2e-3, 4: 3.5e-3, 8: 4.2e-3, 16: 5.5e-3}})
BENT = CostTable({0: {1: 3.2e-3, 4: 3.8e-3, 8: 5.6e-3, 16: 10e-3}})
STEEP = CostTable({0: {1: 8e-3, 2: 13e-3, 4: 20e-3, 8: 35e-3, 16: 62e-3}})
TABLES = {"flat": FLAT, "bent": BENT, "steep": STEEP}


def text_of(length: int, seed: int = 0) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(VOCABULARY) for _ in range(length)]


def widths_over(policy: WidthPolicy, drafter: Drafter, text: Sequence[int]) -> list[tuple[int, int]]:
    """The (width, emitted tokens) of every round that writes ``text``."""
    rounds = list[tuple[int, int]]()
    done = 0
    while done < len(text):
        limit = min(policy.request(done), len(text) - done - 1)
        proposal = drafter.propose(limit)
        width = policy.cut(proposal, done)
        assert 0 <= width <= len(proposal)
        accepted = 0
        while accepted < width and proposal.tokens[accepted] == text[done + accepted]:
            accepted += 1
        emitted = text[done : done + accepted + 1]
        policy.record(emitted)
        drafter.observe(emitted)
        rounds.append((width, len(emitted)))
        done += len(emitted)
    return rounds


def seconds(rounds: Sequence[tuple[int, int]], table: CostTable) -> float:
    costs = table.row_costs(64, 0)
    return sum(costs[width] for width, _ in rounds)


def loss(rounds: Sequence[tuple[int, int]], table: CostTable) -> float:
    """Time lost against no speculation, as a share of the time without it."""
    alone = sum(emitted for _, emitted in rounds) * table.row_costs(1, 0)[0]
    return seconds(rounds, table) / alone - 1.0


@pytest.mark.parametrize("table", [FLAT, BENT], ids=["flat", "bent"])
def test_always_right_gets_every_token_it_may_offer(table: CostTable) -> None:
    text = text_of(800)
    rounds = widths_over(AdaptiveWidth(table, 15), OracleDrafter(text), text)
    assert [width for width, _ in rounds[5:-1]] == [15] * len(rounds[5:-1])
    assert loss(rounds, table) < 1.1 * (table.row_costs(16, 0)[15] / 16 / table.row_costs(1, 0)[0]) - 1.0


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_always_wrong_costs_less_than_two_percent(table: CostTable) -> None:
    text = text_of(200)
    rounds = widths_over(AdaptiveWidth(table, 15), WrongDrafter(text, VOCABULARY), text)
    assert loss(rounds, table) < 0.02
    assert sum(width for width, _ in rounds[20:]) <= 2


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_no_drafter_can_cost_more_than_was_granted(table: CostTable, seed: int) -> None:
    source = random.Random(seed)
    text, alone = text_of(300, 1), table.row_costs(1, 0)[0]
    policy, done, spent = AdaptiveWidth(table, 15), 0, 0.0
    while done < len(text):
        policy.request(done)
        right = source.choice([0, 0, 0, 1, 3, 20])
        tokens = [t if i < right else (t + 1) % VOCABULARY for i, t in enumerate(text[done : done + 15])]
        confidences = [source.choice([0.0, 0.5, 0.99, 1.0]) for _ in tokens]
        width = policy.cut(Proposal(tokens, confidences), done)
        emitted = text[done : done + min(right, width) + 1]
        policy.record(emitted)
        spent += table.row_costs(16, 0)[width]
        done += len(emitted)
        assert spent <= 1.005 * done * alone + alone * 1.000001


def test_comes_back_up_when_the_text_turns_predictable() -> None:
    text = text_of(700)
    policy = AdaptiveWidth(BENT, 15)
    before = widths_over(policy, WrongDrafter(text[:400], VOCABULARY), text[:400])
    assert [width for width, _ in before[-100:]] == [0] * 100
    after = widths_over(policy, OracleDrafter(text[400:]), text[400:])
    reached = next(index for index, (width, _) in enumerate(after) if width == 15)
    assert reached <= 12
    assert all(width == 15 for width, _ in after[reached:-1])


def test_goes_down_again_when_a_trusted_drafter_turns_wrong() -> None:
    text = text_of(800)
    policy = AdaptiveWidth(BENT, 15)
    widths_over(policy, OracleDrafter(text[:400]), text[:400])
    after = widths_over(policy, WrongDrafter(text[400:], VOCABULARY), text[400:])
    lost = sum(BENT.row_costs(16, 0)[width] - BENT.row_costs(1, 0)[0] for width, _ in after)
    assert lost <= 8.0 * BENT.row_costs(1, 0)[0] + 0.005 * seconds(after, BENT)
    assert sum(width > 0 for width, _ in after[40:]) <= 2


@pytest.mark.parametrize("place", [1, 3, 7])
def test_stops_where_the_drafter_goes_wrong(place: int) -> None:
    text = text_of(600)
    rounds = widths_over(AdaptiveWidth(BENT, 15), WrongAtDrafter(text, VOCABULARY, place), text)
    late = [width for width, _ in rounds[len(rounds) // 2 : -1]]
    assert sum(late) / len(late) == pytest.approx(place, abs=1.0)


def test_proposals_that_cannot_pay_are_left_alone() -> None:
    text = text_of(300)
    rounds = widths_over(AdaptiveWidth(STEEP, 15), WrongAtDrafter(text, VOCABULARY, 1), text)
    assert loss(rounds, STEEP) < 0.02


def test_no_proposal_no_cost() -> None:
    text = text_of(50)
    assert widths_over(AdaptiveWidth(BENT, 15), EmptyDrafter(), text) == [(0, 1)] * 50


class AskedDrafter(OracleDrafter):
    """Always right, and notes how many tokens it was asked for."""

    def __init__(self, text: Sequence[int]) -> None:
        super().__init__(text)
        self.asked: list[int] = []

    def guess(self, limit: int) -> list[int]:
        self.asked.append(limit)
        return super().guess(limit)


@pytest.mark.parametrize("passes", [1.1, 1.5, 2.5])
def test_a_drafter_that_cannot_pay_is_asked_only_now_and_then(passes: float) -> None:
    """Even one that is always right, if a token takes it longer than a pass."""
    text = text_of(400)
    drafter = AskedDrafter(text)
    alone = BENT.row_costs(1, 0)[0]
    rounds = widths_over(AdaptiveWidth(BENT, 7, draft_seconds=passes * alone), drafter, text)
    asked = [limit for limit in drafter.asked if limit > 0]
    assert set(asked) == {1}
    assert 1 <= len(asked) <= 20
    spent = seconds(rounds, BENT) + passes * alone * len(asked)
    assert spent <= 1.005 * len(text) * alone + alone


def test_a_drafter_that_costs_little_is_asked_for_all_it_may_offer() -> None:
    text = text_of(400)
    drafter = AskedDrafter(text)
    widths_over(AdaptiveWidth(BENT, 7, draft_seconds=0.05 * BENT.row_costs(1, 0)[0]), drafter, text)
    assert drafter.asked[-20:-2] == [7] * 18


def test_drafting_time_counts_as_lost_when_nothing_comes_of_it() -> None:
    text = text_of(600)
    alone = BENT.row_costs(1, 0)[0]
    drafter = WrongDrafter(text, VOCABULARY)
    policy = AdaptiveWidth(BENT, 7, draft_seconds=0.2 * alone)
    asked = 0

    def counting(context_length: int) -> int:
        nonlocal asked
        width = AdaptiveWidth.request(policy, context_length)
        asked += width
        return width

    policy.request = counting  # type: ignore[method-assign]
    rounds = widths_over(policy, drafter, text)
    assert seconds(rounds, BENT) + asked * 0.2 * alone < 1.03 * len(text) * alone


def test_same_calls_same_widths() -> None:
    text = text_of(300)
    runs = [widths_over(AdaptiveWidth(BENT, 15), WrongAtDrafter(text, VOCABULARY, 4), text) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("recorded", [False, True])
def test_restored_policy_decides_as_if_nothing_had_happened(recorded: bool) -> None:
    text = text_of(200)
    policy, other = AdaptiveWidth(BENT, 15), AdaptiveWidth(BENT, 15)
    for each in (policy, other):
        widths_over(each, WrongAtDrafter(text, VOCABULARY, 5), text)
    mark = policy.checkpoint()
    for _ in range(9):
        policy.request(200)
        policy.cut(Proposal([1, 2, 3], [0.9, 0.9, 0.9]), 200)
        if recorded:
            policy.record([7])
    policy.restore(mark)
    again = text_of(200, 3)
    assert widths_over(policy, WrongAtDrafter(again, VOCABULARY, 5), again) == widths_over(
        other, WrongAtDrafter(again, VOCABULARY, 5), again
    )


def test_fixed_evaluates_all_that_is_proposed() -> None:
    text = text_of(64)
    assert widths_over(FixedWidth(7), OracleDrafter(text), text) == [(7, 8)] * 8
    assert FixedWidth(7).cut(Proposal([1] * 3, [0.0] * 3), 0) == 3


@pytest.mark.parametrize("policy", [FixedWidth(8, 4), AdaptiveWidth(FLAT, 8, 4)], ids=["fixed", "adaptive"])
def test_proposals_under_the_minimum_are_dropped(policy: WidthPolicy) -> None:
    assert policy.cut(Proposal([1] * 3, [1.0] * 3), 0) == 0
    assert policy.cut(Proposal([1] * 8, [1.0] * 8), 0) in range(4, 9)


def test_adaptive_narrows_to_the_minimum_or_to_nothing() -> None:
    text = text_of(400)
    rounds = widths_over(AdaptiveWidth(FLAT, 15, 6), WrongAtDrafter(text, VOCABULARY, 2), text)
    assert {width for width, _ in rounds} <= {0, *range(6, 16)}


def test_cost_table_interpolates_between_what_was_measured() -> None:
    table = CostTable({128: {1: 1.0, 4: 4.0}, 256: {1: 2.0, 4: 5.0}})
    assert table.row_costs(4, 128) == pytest.approx((1.0, 2.0, 3.0, 4.0))
    assert table.row_costs(4, 192) == pytest.approx((1.5, 2.5, 3.5, 4.5))
    assert table.row_costs(6, 1024) == pytest.approx((2.0, 3.0, 4.0, 5.0, 6.0, 7.0))
    assert table.row_costs(2, 0) == pytest.approx((1.0, 2.0))
    assert CostTable({0: {1: 1.5}}).row_costs(3, 0) == (1.5, 1.5, 1.5)


def test_no_pass_costs_more_than_a_measured_one_of_more_rows_or_context() -> None:
    assert CostTable({0: {1: 3.0, 2: 2.5, 3: 4.0}}).row_costs(3, 0) == (2.5, 2.5, 4.0)
    assert CostTable({0: {1: 3.0}, 64: {1: 2.0, 2: 2.5}}).row_costs(1, 0) == (2.0,)


def test_cost_table_survives_a_receipt() -> None:
    assert CostTable.from_dict(BENT.as_dict()).row_costs(20, 77) == BENT.row_costs(20, 77)


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ({}, "at least one measured context, found none"),
        ({0: {2: 1.0}}, "context 0: expected seconds of a pass over one row, found none"),
        ({0: {1: 0.0}}, "context 0: 1 rows: expected seconds > 0, found 0.0"),
        ({0: {1: 1.0, 0: 1.0}}, "context 0: 0 rows: expected seconds > 0"),
        ({0: {1: float("nan")}}, "expected seconds > 0, found nan"),
    ],
)
def test_senseless_cost_tables_are_refused(measured: dict[int, dict[int, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CostTable(measured)
