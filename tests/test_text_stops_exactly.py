"""Stop strings: the text before the first complete one is whole, nothing after it leaks, nothing is held in
vain.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verispec.errors import OptionError
from verispec.text.stops import StopMatcher

# Two letters make overlaps, prefixes of one another and repeats likely.
words = st.text(alphabet="ab", min_size=1, max_size=5)
stop_lists = st.lists(words, max_size=4)
piece_lists = st.lists(st.text(alphabet="abc", max_size=6), max_size=12)


def oracle(text: str, stops: list[str]) -> tuple[str, str | None]:
    """One character after another: cut at the longest stop that ends at the first place where any does."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


@given(piece_lists, stop_lists)
def test_text_equals_the_oracle_however_it_is_cut(pieces: list[str], stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    out = "".join(matcher.push(piece) for piece in pieces) + matcher.flush()
    assert (out, matcher.matched) == oracle("".join(pieces), stops)


@given(piece_lists, stop_lists)
def test_only_what_could_become_a_stop_is_held_back(pieces: list[str], stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    seen = out = ""
    for piece in pieces:
        seen += piece
        out += matcher.push(piece)
        if matcher.matched is not None:
            return
        held = seen[len(out) :]
        assert seen == out + held
        beginnings = {stop[:length] for stop in stops for length in range(1, len(stop))}
        longest = max(
            (beginning for beginning in beginnings if seen.endswith(beginning)), key=len, default=""
        )
        assert held == longest


@given(piece_lists, piece_lists, piece_lists, stop_lists)
def test_restoring_forgets_what_came_after(
    before: list[str], rejected: list[str], after: list[str], stops: list[str]
) -> None:
    matcher = StopMatcher(stops)
    out = "".join(map(matcher.push, before))
    checkpoint = matcher.checkpoint()
    for piece in rejected:
        matcher.push(piece)
    matcher.restore(checkpoint)
    out += "".join(map(matcher.push, after)) + matcher.flush()
    assert (out, matcher.matched) == oracle("".join(before + after), stops)


def test_a_stop_inside_one_piece_cuts_it() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("abcENDdef") == "abc"
    assert matcher.matched == "END"
    assert matcher.push("more") == ""
    assert matcher.flush() == ""


def test_a_stop_over_several_pieces_never_shows() -> None:
    matcher = StopMatcher("</answer>")
    assert [matcher.push(piece) for piece in ("42", " <", "/ans", "wer", ">", "x")] == [
        "42",
        " ",
        "",
        "",
        "",
        "",
    ]


def test_a_beginning_that_comes_to_nothing_is_released() -> None:
    matcher = StopMatcher(["\n\nUser:"])
    assert [matcher.push(piece) for piece in ("a\n", "\nU", "sage")] == ["a", "", "\n\nUsage"]


def test_no_stops_hold_nothing() -> None:
    matcher = StopMatcher()
    assert matcher.push("abc") == "abc"
    assert matcher.flush() == ""


@pytest.mark.parametrize("stops", [[""], ["a", ""], [1], [None]])
def test_empty_stops_are_refused(stops: list[object]) -> None:
    with pytest.raises(OptionError, match="stop: expected non-empty strings"):
        StopMatcher(stops)  # type: ignore[arg-type]
