"""How many more lanes "cannot tell" is away from an answer."""

from __future__ import annotations

from collections.abc import Callable

from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.verdict import Verdict, verdict_of
from verispec.lab.statistics.evidence import Evidence
from verispec.lab.statistics.t_process import as_float, half_width

MOST_PAIRS = 1_000_000


def lanes_needed(evidence: Evidence, expected: float, plan: DecisionPlan) -> int | None:
    """More lanes, half of each arm, after which the interval decides when effect and noise stay as expected.

    ``expected`` is the log effect thought true (the shrunken estimate). Lanes come as pairs in blocks of their own:
    each adds 1/2 to the information and one degree of freedom. While the noise is unknown it is the fewest lanes that
    can decide anything. None: more than anybody could run.
    """
    noise = evidence.noise
    known = noise.degrees > 0 and noise.squares > 0

    def decides(pairs: int) -> bool:
        degrees = noise.degrees + pairs
        squares = noise.squares * degrees / noise.degrees if known else 0.0
        width = as_float(half_width(evidence.information + pairs / 2, squares, degrees, plan.level))
        if not known:
            return width == 0.0
        return verdict_of(expected - width, expected + width, plan.log_margin) is not Verdict.CANNOT_TELL

    pairs = fewest(decides)
    return None if pairs is None else 2 * pairs


def fewest_pairs(plan: DecisionPlan) -> int | None:
    """Lane pairs, each in a block of its own, below which no effect whatever could be decided when only the
    experiment's own lanes count. None: more than anybody could run."""

    def decides(pairs: int) -> bool:
        return as_float(half_width(pairs / 2, 0.0, pairs - 1, plan.level)) == 0.0

    return fewest(decides)


def fewest(enough: Callable[[int], bool]) -> int | None:
    """The smallest number from 1 up for which ``enough`` holds, as it must for all above it; None beyond a million."""
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST_PAIRS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
