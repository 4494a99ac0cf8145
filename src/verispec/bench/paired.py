"""Paired comparison: two times taken one after another, many times, and how sure their ratio is."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The median of ratios with a bootstrap interval of 95%."""

    median: float
    low: float
    high: float
    pairs: int

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def as_dict(self) -> dict[str, Any]:
        return {
            "median": round(self.median, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "pairs": self.pairs,
        }


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> PairedRatio:
    """The ratio of two series whose i-th entries were taken side by side."""
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    draw = random.Random(len(ratios))
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    tail = int((1 - LEVEL) / 2 * RESAMPLES)
    return PairedRatio(statistics.median(ratios), medians[tail], medians[-tail - 1], len(ratios))
