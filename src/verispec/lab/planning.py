"""What an experiment could see, from the bank of past controls, before anything is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from verispec.lab.decision.decision import rounded_percent
from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.noise_bank import NoiseBank
from verispec.lab.simulation.sequential_power import pairs_for, smallest_detectable
from verispec.lab.statistics.fixed_size import pairs_for_power, smallest_for_pairs


def plan_experiment(
    bank: NoiseBank, plan: DecisionPlan, lanes: Sequence[int], effects: Sequence[float]
) -> dict[str, Any]:
    """For each number of ``lanes`` an arm the smallest detectable effect; for each effect (a share) the lanes it needs.

    80% power throughout. ``noise_unknown`` judges by the experiment's own lanes alone, ``bank_noise`` takes the bank's
    noise as its own (same engine, device, suite and metric); both may stop as soon as they know. ``fixed_size`` is the
    paired t test that is looked at once.
    """
    deviation = bank.noise.deviation
    with_bank = replace(plan, noise=bank.noise)
    return {
        "source": bank.source,
        "metric": bank.metric,
        "stage": bank.stage,
        "lane_deviation_percent": round(100 * deviation, 3),
        "identical_lanes": sum(len(batch) for batch in bank.batches),
        "by_prompts": _by_prompts(bank),
        "margin_percent": 100 * plan.margin,
        "alpha": plan.alpha,
        "searched": plan.searched,
        "detectable": [
            {
                "lanes_per_arm": count,
                "noise_unknown_percent": rounded_percent(smallest_detectable(deviation, count, plan)),
                "bank_noise_percent": rounded_percent(smallest_detectable(deviation, count, with_bank)),
                "fixed_size_percent": rounded_percent(smallest_for_pairs(count, deviation)),
            }
            for count in lanes
        ],
        "needed": [
            {
                "effect_percent": 100 * effect,
                "noise_unknown_lanes": pairs_for(deviation, math.log1p(effect), plan),
                "bank_noise_lanes": pairs_for(deviation, math.log1p(effect), with_bank),
                "fixed_size_lanes": pairs_for_power(deviation, math.log1p(effect)),
            }
            for effect in effects
        ],
    }


def _by_prompts(bank: NoiseBank) -> dict[str, float] | None:
    """How much a lane would vary with other numbers of prompts, in percent; None where that is not known."""
    if bank.components is None:
        return None
    return {str(prompts): round(100 * bank.components.lane_mean(prompts), 3) for prompts in (4, 12, 24, 48)}
