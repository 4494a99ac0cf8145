"""Correction for having looked at many candidates, on e-values: no assumption about how they depend on each other."""

from __future__ import annotations

from collections.abc import Sequence


def bonferroni(alpha: float, searched: int) -> float:
    """The level each of ``searched`` candidates is judged at so that any false claim has probability at most alpha."""
    return alpha / searched


def e_benjamini_hochberg(e_values: Sequence[float], alpha: float) -> list[bool]:
    """Which hypotheses to reject so that the expected share of false ones among them is at most ``alpha``.

    R. Wang and A. Ramdas, "False discovery rate control with e-values" (JRSS B 84, 2022): with K e-values, reject the
    k largest for the largest k at which the k-th largest is at least K / (alpha k). Valid under any dependence.
    """
    count = len(e_values)
    order = sorted(range(count), key=lambda index: -e_values[index])
    rejected = 0
    for rank, index in enumerate(order, start=1):
        if e_values[index] >= count / (alpha * rank):
            rejected = rank
    chosen = set(order[:rejected])
    return [index in chosen for index in range(count)]


def selected_level(alpha: float, searched: int, selected: int) -> float:
    """The level of the intervals reported for ``selected`` of ``searched``: alpha * selected / searched.

    Z. Xu, R. Wang and A. Ramdas, "Post-selection inference for e-value based confidence intervals" (arXiv 2203.12572):
    the expected share of wrong intervals among those selected is at most alpha, whatever the selection rule was.
    """
    return alpha * max(selected, 1) / searched
