"""What an always-valid experiment can see: by simulation with the bank's noise, the same draws for every question."""

from __future__ import annotations

import math

import numpy as np

from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.verdict import Verdict
from verispec.lab.simulation.lane_noise import normal_noise, pair_effects
from verispec.lab.simulation.sequential import look_after_every_pair
from verispec.lab.statistics.fixed_size import POWER
from verispec.lab.statistics.t_process import Floats

EXPERIMENTS = 2000
MOST_PAIRS = 4096
LARGEST_EFFECT = math.log(4)


def improvements_by_pair(effects: Floats, plan: DecisionPlan) -> Floats:
    """The share of experiments that said "improvement" by each pair, shape (pairs,)."""
    found = look_after_every_pair(effects, plan).holds(Verdict.IMPROVEMENT, plan.log_margin)
    return np.asarray(np.maximum.accumulate(found, axis=1).mean(axis=0))


def pairs_for(deviation: float, effect: float, plan: DecisionPlan, seed: int = 0) -> int | None:
    """Lane pairs after which an improvement of ``effect`` (log scale) has been found with 80% power.

    None when that takes more than ``MOST_PAIRS``. ``deviation`` is of one lane, log scale.
    """
    pairs = 16
    while pairs <= MOST_PAIRS:
        shares = improvements_by_pair(_draws(deviation, pairs, seed) + effect, plan)
        if shares[-1] >= POWER:
            return int(np.argmax(shares >= POWER)) + 1
        pairs *= 4
    return None


def smallest_detectable(deviation: float, pairs: int, plan: DecisionPlan, seed: int = 0) -> float | None:
    """The smallest log effect found with 80% power within ``pairs`` pairs; None when these cannot show any."""
    draws = _draws(deviation, pairs, seed)
    low, high = 0.0, LARGEST_EFFECT
    if improvements_by_pair(draws + high, plan)[-1] < POWER:
        return None
    for _ in range(16):
        middle = (low + high) / 2
        found = improvements_by_pair(draws + middle, plan)[-1] >= POWER
        low, high = (low, middle) if found else (middle, high)
    return high


def _draws(deviation: float, pairs: int, seed: int) -> Floats:
    experiments = EXPERIMENTS if pairs <= 256 else EXPERIMENTS // 4  # keeps the arrays to a few tens of MB
    return pair_effects(normal_noise(deviation), np.random.default_rng(seed), experiments, pairs, 0.0)
