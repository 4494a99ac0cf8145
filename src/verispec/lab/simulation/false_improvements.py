"""A/A: both arms are the same. How often does an experiment call one of them better?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.verdict import Verdict
from verispec.lab.simulation.lane_noise import Noise, pair_effects
from verispec.lab.simulation.sequential import stop_at_first_verdict
from verispec.lab.statistics.evidence import LaneNoise
from verispec.lab.statistics.proportions import Proportion
from verispec.lab.statistics.t_process import Floats, running

PAIRS = 100
"""Most pairs of an experiment; it is looked at after each."""


def simulate_no_effect(noise: Noise, plan: DecisionPlan, experiments: int, seed: int) -> dict[str, Any]:
    """False improvements of the lab and, on the same lanes, of a t test at 5% that is looked at as often."""
    effects = pair_effects(noise, np.random.default_rng(seed), experiments, PAIRS, 0.0)
    stopped = stop_at_first_verdict(effects, plan)
    return {
        "experiments": experiments,
        "most_lanes": 2 * PAIRS,
        "false_improvement": Proportion(stopped.count(Verdict.IMPROVEMENT), experiments).as_dict(),
        "false_regression": Proportion(stopped.count(Verdict.REGRESSION), experiments).as_dict(),
        "no_difference": Proportion(stopped.count(Verdict.NO_DIFFERENCE), experiments).as_dict(),
        "t_test_at_every_look": Proportion(_peeking(effects), experiments).as_dict(),
    }


def simulate_wrong_bank(
    noise: Noise, believed: LaneNoise, plan: DecisionPlan, experiments: int, seed: int
) -> dict[str, Any]:
    """False improvements where past lanes varied as ``believed`` and those of the experiment by ``noise``.

    ``false_improvement`` is of ``plan``, by which experiments are decided: it knows no bank. ``bank_taken_as_known`` is
    what the same lanes would be called with the bank's noise as theirs, left out where they contradict it.
    """
    effects = pair_effects(noise, np.random.default_rng(seed), experiments, PAIRS, 0.0)
    stopped = stop_at_first_verdict(effects, plan)
    trusting = stop_at_first_verdict(effects, replace(plan, noise=believed))
    return {
        "experiments": experiments,
        "most_lanes": 2 * PAIRS,
        "false_improvement": Proportion(stopped.count(Verdict.IMPROVEMENT), experiments).as_dict(),
        "bank_taken_as_known": Proportion(trusting.count(Verdict.IMPROVEMENT), experiments).as_dict(),
    }


def _peeking(effects: Floats) -> int:
    """Experiments in which a two-sided paired t test at 5%, done after every pair, is ever in favour."""
    estimate, information, squares = running(effects, np.array(0.5))
    degrees = np.arange(1, effects.shape[1])
    error = np.sqrt(squares[:, 1:] / degrees / information[:, 1:])
    return int((estimate[:, 1:] > stats.t.ppf(0.975, degrees) * error).any(axis=1).sum())
