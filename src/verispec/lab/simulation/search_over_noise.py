"""The best of twenty candidates of which none is any better: who is promoted?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.verdict import Verdict
from verispec.lab.simulation.lane_noise import Noise, pair_effects
from verispec.lab.simulation.sequential import look_after_every_pair
from verispec.lab.statistics.proportions import Proportion
from verispec.lab.statistics.shrinkage import learn_effects
from verispec.lab.statistics.t_process import Floats

CANDIDATES = 20
SCREEN_PAIRS = 8
FRESH_PAIRS = 24
SHRUNKEN_SEARCHES = 60
"""Searches whose winner is also shrunken: learning what twenty candidates are worth takes a moment."""


def simulate_search(noise: Noise, plan: DecisionPlan, searches: int, seed: int) -> dict[str, Any]:
    """Each search screens twenty candidates, takes the one that looks best, and measures it again on fresh lanes.

    ``promoted``: at some look at the fresh lanes the always-valid bound was above the margin; every other requirement
    of a promotion is taken as met. Beside it, what the same search would have found without fresh data, with and
    without correction, and what a plain t test says.
    """
    draw = np.random.default_rng(seed)
    screen = pair_effects(noise, draw, searches * CANDIDATES, SCREEN_PAIRS, 0.0)
    fresh = pair_effects(noise, draw, searches, FRESH_PAIRS, 0.0)
    looks = look_after_every_pair(fresh, plan)
    means = screen.mean(axis=1).reshape(searches, CANDIDATES)
    return {
        "searches": searches,
        "candidates": CANDIDATES,
        "screen_lanes_each": 2 * SCREEN_PAIRS,
        "fresh_lanes": 2 * FRESH_PAIRS,
        "promoted": Proportion(int((looks.low > plan.log_margin).any(axis=1).sum()), searches).as_dict(),
        "improvement_on_fresh_data": Proportion(
            int(looks.holds(Verdict.IMPROVEMENT, plan.log_margin).any(axis=1).sum()), searches
        ).as_dict(),
        "improvement_on_screen_corrected": _any(screen, replace(plan, searched=CANDIDATES)),
        "improvement_on_screen_uncorrected": _any(screen, plan),
        "t_test_of_the_best": Proportion(_t_test_of_best(screen), searches).as_dict(),
        "winner": _winner(means, screen),
    }


def _any(screen: Floats, plan: DecisionPlan) -> dict[str, Any]:
    found = look_after_every_pair(screen, plan).holds(Verdict.IMPROVEMENT, plan.log_margin)
    searches = len(screen) // CANDIDATES
    return Proportion(int(found.reshape(searches, -1).any(axis=1).sum()), searches).as_dict()


def _t_test_of_best(screen: Floats) -> int:
    """Searches whose best candidate a two-sided t test at 5% on its own screen calls better."""
    scores = screen.mean(axis=1) / (screen.std(axis=1, ddof=1) / np.sqrt(SCREEN_PAIRS))
    best = scores.reshape(-1, CANDIDATES).max(axis=1)
    return int((best > stats.t.ppf(0.975, SCREEN_PAIRS - 1)).sum())


def _winner(means: Floats, screen: Floats) -> dict[str, Any]:
    """What the best candidate seems to be worth: as measured, and shrunken towards the others. In truth, nothing."""
    errors = (screen.std(axis=1, ddof=1) / np.sqrt(SCREEN_PAIRS)).reshape(means.shape)
    best = means.argmax(axis=1)
    shrunken = [
        learn_effects(means[one], errors[one]).shrink(
            means[one, best[one]], errors[one, best[one]], SCREEN_PAIRS - 1
        )
        for one in range(min(SHRUNKEN_SEARCHES, len(means)))
    ]
    return {
        "measured_percent": round(100 * float(np.expm1(means.max(axis=1).mean())), 3),
        "shrunken_percent": round(100 * float(np.expm1(np.mean(shrunken))), 3),
        "true_percent": 0.0,
    }
