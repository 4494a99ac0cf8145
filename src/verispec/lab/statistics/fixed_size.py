"""Testing once, after a number of lanes fixed beforehand: what it needs and what it can see.

For comparison and for planning only; nobody who looks twice may use it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

ALPHA = 0.05
POWER = 0.80


def lanes_per_arm(deviation: float, effect: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Lanes of each arm for the two-sided z test, the noise taken as known: 2 (z + z')^2 (deviation / effect)^2.

    ``deviation`` and ``effect`` in the same unit (shares, or the metric's).
    """
    quantiles = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power))
    return math.ceil(2 * (quantiles * deviation / effect) ** 2)


def paired_power(pairs: int, deviation: float, effect: float, alpha: float = ALPHA) -> float:
    """Power of the two-sided paired t test of ``pairs`` lane pairs, the noise estimated from them."""
    if pairs < 2:
        return 0.0
    centre = effect * math.sqrt(pairs / 2) / deviation
    critical = stats.t.ppf(1 - alpha / 2, pairs - 1)
    above = stats.nct.sf(critical, pairs - 1, centre)
    below = stats.nct.cdf(-critical, pairs - 1, centre)
    return float(np.nansum([above, below]))


def pairs_for_power(deviation: float, effect: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Lane pairs for the paired t test; somewhat more than ``lanes_per_arm``, because the noise is not known."""
    pairs = max(2, lanes_per_arm(deviation, effect, alpha, power) - 1)
    while paired_power(pairs, deviation, effect, alpha) < power:
        pairs += 1
    return pairs


def smallest_for_pairs(
    pairs: int, deviation: float, alpha: float = ALPHA, power: float = POWER
) -> float | None:
    """The smallest log effect that the paired t test finds with this power; None for a single pair."""
    if pairs < 2:
        return None
    low, high = 0.0, 1000 * deviation
    for _ in range(50):
        middle = (low + high) / 2
        found = paired_power(pairs, deviation, middle, alpha) >= power
        low, high = (low, middle) if found else (middle, high)
    return high
