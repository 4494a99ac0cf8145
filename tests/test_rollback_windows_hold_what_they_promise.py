"""A pass over M rows keeps the state before it, the live one, and the S before the live one, in S + 2 places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verispec.backends.state_window import NO_STATE, Places, StateWindow
from verispec.errors import BackendError


class Tape:
    """Stands for a recurrence: a place holds the tokens it has read. A pass follows the columns literally."""

    def __init__(self, window: StateWindow) -> None:
        self.window = window
        self.contents: dict[int, tuple[int, ...]] = {}

    def run(self, length: int, tokens: list[int], reading: bool = False) -> None:
        columns = self.window.advance(length, len(tokens), reading)
        for token, read, written in zip(tokens, columns.state_from, columns.state_to, strict=True):
            before = () if read == NO_STATE else self.contents[read]
            self.contents[written] = (*before, token)

    def behind(self, length: int) -> tuple[int, ...]:
        place = self.window.place(length)
        return () if place == NO_STATE else self.contents[place]


rounds = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 11)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=300)
@given(window=st.integers(0, 8), keep=st.integers(0, 8), first=st.integers(0, 50), rounds=rounds)
def test_every_held_state_is_that_of_its_own_prefix(
    window: int, keep: int, first: int, rounds: list[tuple[int, int]]
) -> None:
    states = StateWindow(Places(first, window))
    states.keep = min(keep, window)
    tape, text, length = Tape(states), [0] * 0, 0
    for number, (rows, rejected) in enumerate(rounds):
        tokens = [100 * number + row for row in range(rows)]
        tape.run(length, tokens)
        evaluated = text[:length] + tokens
        assert tape.behind(length) == tuple(text[:length])
        for back in range(min(states.keep, rows - 1) + 1):
            assert tape.behind(length + rows - back) == tuple(evaluated[: length + rows - back])
        assert set(tape.contents) <= set(states.places)
        kept = length + rows - rejected
        if kept > length and states.holds(kept):
            text, length = evaluated[:kept], kept
        assert tape.behind(length) == tuple(text[:length])


@settings(deadline=None, max_examples=200)
@given(window=st.integers(0, 8), begin=st.integers(0, 20), rows=st.integers(1, 70))
def test_a_pass_over_a_prompt_keeps_the_ends_of_its_last_blocks(window: int, begin: int, rows: int) -> None:
    states = StateWindow(Places(0, window))
    states.block = 16
    tape, text = Tape(states), list(range(begin + rows))
    if begin:
        tape.run(0, text[:begin])
    tape.run(begin, text[begin:], reading=True)
    ends = [end for end in range(16, begin + rows, 16) if end > begin]
    for length in [*ends[len(ends) - min(window, len(ends)) :], begin, begin + rows]:
        assert tape.behind(length) == tuple(text[:length])


def test_what_lies_outside_the_window_is_refused_with_what_is_held() -> None:
    states = StateWindow(Places(0, 2))
    states.advance(0, 8, reading=False)
    assert [length for length in range(10) if states.holds(length)] == [0, 6, 7, 8]
    with pytest.raises(BackendError, match=r"whose state is held \(0, 6, 7, 8\), found 5"):
        states.place(5)


def test_a_failed_pass_leaves_the_state_before_it_alone() -> None:
    states = StateWindow(Places(0, 3))
    states.advance(0, 4, reading=False)
    states.advance(4, 3, reading=False)
    states.forget_after(4)
    assert [length for length in range(9) if states.holds(length)] == [0, 4]


def test_how_far_a_sequence_can_be_cut_is_known() -> None:
    states = StateWindow(Places(0, 3))
    states.advance(0, 20, reading=False)
    assert states.oldest(20) == 17
    states.advance(18, 2, reading=False)
    assert states.oldest(20) == 18
