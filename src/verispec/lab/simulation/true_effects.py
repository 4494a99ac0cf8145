"""A real effect of known size: how often is it found, and after how many lanes, against testing at a fixed size?"""

from __future__ import annotations

from typing import Any

import numpy as np

from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.verdict import Verdict
from verispec.lab.simulation.lane_noise import Noise, pair_effects
from verispec.lab.simulation.sequential import stop_at_first_verdict
from verispec.lab.statistics.fixed_size import lanes_per_arm, paired_power, pairs_for_power
from verispec.lab.statistics.proportions import Proportion

BUDGETS = (1, 2, 4)
"""The experiment may use as many lanes as testing at a fixed size, twice and four times as many."""


def simulate_effect(
    noise: Noise, deviation: float, effect: float, plan: DecisionPlan, experiments: int, seed: int
) -> dict[str, Any]:
    """``effect`` as a share (0.02: 2% faster); ``deviation`` of a lane, log scale.

    Fixed size is the paired t test at 5% with the lanes that give it 80% power: looked at once, at the end. The
    always-valid experiment is looked at after every pair, and stops when it has an answer.
    """
    log_effect = float(np.log1p(effect))
    fixed = pairs_for_power(deviation, log_effect)
    effects = pair_effects(noise, np.random.default_rng(seed), experiments, BUDGETS[-1] * fixed, log_effect)
    return {
        "experiments": experiments,
        "effect_percent": 100 * effect,
        "fixed_size": {
            "lanes_per_arm_known_noise": lanes_per_arm(deviation, effect),
            "lanes": 2 * fixed,
            "power": round(paired_power(fixed, deviation, log_effect), 4),
        },
        "always_valid": [
            _within(effects[:, : budget * fixed], plan, budget, log_effect) for budget in BUDGETS
        ],
    }


def _within(effects: np.ndarray[Any, Any], plan: DecisionPlan, budget: int, truth: float) -> dict[str, Any]:
    stopped = stop_at_first_verdict(effects, plan)
    found = stopped.verdicts[Verdict.IMPROVEMENT]
    lanes = 2 * stopped.pairs
    raw = float(np.expm1(stopped.estimate[found].mean())) if found.any() else None
    return {
        "budget": budget,
        "most_lanes": 2 * effects.shape[1],
        "power": round(float(found.mean()), 4),
        "wrong_sign": Proportion(stopped.count(Verdict.REGRESSION), len(effects)).as_dict(),
        "mean_lanes": round(float(lanes.mean()), 2),
        "median_lanes": float(np.median(lanes)),
        "lanes_80_percent": float(np.quantile(lanes, 0.8)),
        "mean_estimate_when_found_percent": None if raw is None else round(100 * raw, 3),
        "true_percent": round(100 * float(np.expm1(truth)), 3),
    }
