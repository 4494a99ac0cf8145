"""How sure a figure over prompts is: the prompts are drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its bootstrap interval of 95% over ``prompts`` prompts; of one prompt it has no width."""

    value: float
    low: float
    high: float
    prompts: int

    def as_dict(self) -> dict[str, float | int]:
        return {
            "value": round(self.value, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "prompts": self.prompts,
        }

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def mean(values: Sequence[float]) -> Interval:
    """The mean of one value a prompt."""
    return share(values, [1.0] * len(values))


def share(parts: Sequence[float], wholes: Sequence[float]) -> Interval:
    """The sum of ``parts`` over that of ``wholes``, one of each a prompt; one with a whole of 0 counts for nothing.

    Bootstrap percentiles after B. Efron, "Bootstrap methods: another look at the jackknife" (Annals of Statistics 7,
    1979); pairs are drawn, as for any ratio of sums. Raises ValueError where no whole is over 0.
    """
    kept = [(part, whole) for part, whole in zip(parts, wholes, strict=True) if whole > 0]
    if not kept:
        raise ValueError("share: expected a prompt with something to take a share of, found none")
    pairs = np.asarray(kept, np.float64)
    drawn = np.random.default_rng(len(pairs)).integers(0, len(pairs), (RESAMPLES, len(pairs)))
    sums = pairs[drawn].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    part, whole = pairs.sum(axis=0)
    return Interval(float(part / whole), float(low), float(high), len(pairs))
