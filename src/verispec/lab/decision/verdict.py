"""The six verdicts, and the one rule that turns an interval into one."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What an experiment says of a candidate."""

    INVALID = "invalid"
    REGRESSION = "regression"
    NO_DIFFERENCE = "no difference"
    CANNOT_TELL = "cannot tell"
    IMPROVEMENT = "improvement"
    PROMOTED = "promoted"


def verdict_of(low: float, high: float, log_margin: float) -> Verdict:
    """The verdict that an always-valid interval of the log effect allows; ``PROMOTED`` needs more than an interval.

    Within the margin on both sides nothing that matters is left to find, even where zero is excluded.
    """
    if -log_margin < low and high < log_margin:
        return Verdict.NO_DIFFERENCE
    if low > 0:
        return Verdict.IMPROVEMENT
    if high < 0:
        return Verdict.REGRESSION
    return Verdict.CANNOT_TELL
