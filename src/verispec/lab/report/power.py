"""What the plan of a decision could have found, said again beside what it did find."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from verispec.lab.decision import DecisionPlan
from verispec.lab.experiment.spec import plan_of
from verispec.lab.noise_bank import PUBLISHED, read_bank
from verispec.lab.simulation.sequential_power import pairs_for, smallest_detectable
from verispec.lab.statistics.evidence import LaneNoise

Record = Mapping[str, Any]
EFFECTS = (0.01, 0.02, 0.05)


@dataclass(frozen=True, slots=True)
class Power:
    """``lanes`` of each arm were planned at most. ``smallest_percent`` is what they find 4 times of 5, None when they
    cannot find anything. ``needed`` is (effect in percent, lanes of each arm or None for too many)."""

    lanes: int
    deviation_percent: float
    source: str
    smallest_percent: float | None
    needed: tuple[tuple[float, int | None], ...]


def power_of(decision: Record, stages: Record, devices: int) -> Power | None:
    """Of the stage that a decision record belongs to; None where that stage compares no lanes."""
    stage = "confirmation" if decision["stage"] == "promotion" else decision["stage"]
    lanes = stages.get(stage, 0) * devices
    if stage not in ("screen", "confirmation") or not lanes:
        return None
    plan = plan_of(decision["plan"])
    deviation = decision["decision"]["lane_deviation_percent"]
    return _power(lanes, plan.margin, plan.alpha, plan.searched, plan.noise, deviation or None)


@lru_cache(maxsize=256)
def _power(
    lanes: int, margin: float, alpha: float, searched: int, noise: LaneNoise, deviation_percent: float | None
) -> Power:
    """``deviation_percent`` is what the lanes of the decision varied by, None where they could not show it."""
    plan = DecisionPlan(margin=margin, alpha=alpha, searched=searched, noise=noise)
    if deviation_percent is not None:
        deviation, source = deviation_percent / 100, "as these lanes did"
    else:
        deviation = read_bank(PUBLISHED, "512", "median").noise.deviation
        source = "as those of a published log did: too few ran to show it here"
    smallest = smallest_detectable(deviation, lanes, plan)
    return Power(
        lanes=lanes,
        deviation_percent=100 * deviation,
        source=source,
        smallest_percent=None if smallest is None else 100 * math.expm1(smallest),
        needed=tuple((100 * one, pairs_for(deviation, math.log1p(one), plan)) for one in EFFECTS),
    )
