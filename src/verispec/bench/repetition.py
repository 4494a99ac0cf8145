"""Repetition in generated text: a small model at length loops, and a loop must not pass for speed."""

from __future__ import annotations

from collections.abc import Sequence

GRAM = 8
LOOP_WINDOW = 32
LOOP_REPEATED = 28
MIN_PERIODS = 3
MAX_PERIOD = 128


def repeated_share(tokens: Sequence[int], gram: int = GRAM) -> float:
    """The share of n-grams that stood in the text before; 0.0 for text shorter than one n-gram."""
    seen = _seen_before(tokens, gram)
    return sum(seen) / len(seen) if seen else 0.0


def loop_start(tokens: Sequence[int]) -> int | None:
    """The index of the first token of a loop; None when the text has none.

    A loop is either a stretch whose 8-grams nearly all (28 of 32 in a row) stood in the text before, or a period
    of at most 128 tokens that goes on to the end of the text for three rounds or more. What the model copies from
    its prompt is no loop. The first round of a period is text like any other: the loop begins with the second.
    """
    starts = [start for start in (_repeating_stretch(tokens), _periodic_tail(tokens)) if start is not None]
    return min(starts, default=None)


def _seen_before(tokens: Sequence[int], gram: int) -> list[bool]:
    known: set[tuple[int, ...]] = set()
    seen = []
    for end in range(gram, len(tokens) + 1):
        current = tuple(tokens[end - gram : end])
        seen.append(current in known)
        known.add(current)
    return seen


def _repeating_stretch(tokens: Sequence[int]) -> int | None:
    seen = _seen_before(tokens, GRAM)
    for start in range(len(seen) - LOOP_WINDOW + 1):
        if seen[start] and sum(seen[start : start + LOOP_WINDOW]) >= LOOP_REPEATED:
            return start
    return None


def _periodic_tail(tokens: Sequence[int]) -> int | None:
    """Where the second round of a period begins that lasts to the end; at least 16 tokens beyond the first round."""
    best: int | None = None
    for period in range(1, min(MAX_PERIOD, len(tokens) // MIN_PERIODS) + 1):
        begin = len(tokens) - 1
        while begin >= period and tokens[begin] == tokens[begin - period]:
            begin -= 1
        repeated = len(tokens) - 1 - begin
        if repeated >= max(2 * GRAM, (MIN_PERIODS - 1) * period):
            best = begin + 1 if best is None else min(best, begin + 1)
    return best
