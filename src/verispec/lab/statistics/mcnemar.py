"""Two configurations on the same tasks: is one right more often?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from verispec.errors import OptionError


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Tasks by who answered them correctly, and the exact two-sided p value of "neither is better"."""

    both: int
    only_control: int
    only_candidate: int
    neither: int
    p_value: float


def exact_mcnemar(control: Sequence[bool], candidate: Sequence[bool]) -> PairedScores:
    """The i-th entries are of one task. Given n tasks on which they disagree, the split is binomial(n, 1/2).

    Q. McNemar, "Note on the sampling error of the difference between correlated proportions" (Psychometrika 12, 1947),
    with the exact binomial tail in place of chi-square.
    """
    if len(control) != len(candidate):
        raise OptionError(
            f"paired scores: expected one score a task from both, found {len(control)} and {len(candidate)}"
        )
    pairs = list(zip(control, candidate, strict=True))
    only_control = sum(a and not b for a, b in pairs)
    only_candidate = sum(b and not a for a, b in pairs)
    disagreements = only_control + only_candidate
    p_value = stats.binomtest(only_control, disagreements, 0.5).pvalue if disagreements else 1.0
    both = sum(a and b for a, b in pairs)
    return PairedScores(
        both, only_control, only_candidate, len(pairs) - both - disagreements, float(min(p_value, 1.0))
    )
