"""Where a loop begins is found, what is no loop is left alone, and rates stop at the loop."""

from __future__ import annotations

import pytest

from verispec.bench.answers import FEWEST_TOKENS, Answer
from verispec.bench.repetition import loop_start, repeated_share
from verispec.bench.suites import SuitePrompt

TEXT = list(range(1000, 1060))


@pytest.mark.parametrize("period", [1, 2, 3, 7, 20, 40, 90])
def test_a_period_that_lasts_to_the_end_begins_with_its_second_round(period: int) -> None:
    tokens = TEXT + list(range(period)) * (40 // period + 4)
    assert loop_start(tokens) == len(TEXT) + period


def test_a_loop_that_is_left_again_still_begins_where_it_begins() -> None:
    tokens = TEXT + [1, 2, 3, 4, 5] * 12 + list(range(2000, 2100))
    assert loop_start(tokens) == len(TEXT) + 5


def test_a_list_with_changing_numbers_is_a_loop_once_nearly_all_of_it_repeats() -> None:
    items = [token for number in range(8) for token in [9000 + number, *range(500, 580)]]
    assert loop_start(TEXT + items) == len(TEXT) + 82


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [1],
        TEXT,
        [*TEXT, 7, 7, 7, 7],
        TEXT + TEXT[:30],
        [token for number in range(12) for token in (*range(5), 5000 + number, 6000 + number, 7000 + number)],
    ],
)
def test_short_repeats_and_structured_text_are_no_loops(tokens: list[int]) -> None:
    assert loop_start(tokens) is None


def test_the_share_of_repeated_grams_counts_what_stood_before() -> None:
    assert repeated_share(TEXT) == 0.0
    assert repeated_share([5] * 20) == 12 / 13
    assert repeated_share([1, 2, 3]) == 0.0


def test_a_text_is_measured_up_to_its_loop_and_not_at_all_when_little_stands_before_it() -> None:
    prompt = SuitePrompt("p", "c", "text")
    looping = Answer(prompt, (1,), tuple(TEXT + [7] * 60), "length", loop_start(TEXT + [7] * 60))
    assert looping.measured == len(TEXT) + 1
    early = Answer(prompt, (1,), tuple([7] * 60), "length", loop_start([7] * 60))
    assert early.loop is not None
    assert early.loop < FEWEST_TOKENS
    assert early.measured == 0
