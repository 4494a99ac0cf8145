"""Many experiments at once, each looked at after every pair of lanes and stopped at its first verdict.

The same arithmetic as ``decide`` on blocks of two lanes, on arrays; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verispec.lab.decision.decide import OTHER_NOISE
from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.verdict import Verdict
from verispec.lab.statistics.equal_variances import vary_alike
from verispec.lab.statistics.t_process import Floats, half_width, running

PAIR_INFORMATION = 0.5
"""Of a block of one control and one candidate lane: 1 / (1 + 1)."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Looks:
    """After every pair, shape (experiments, pairs): the estimate and the always-valid interval's ends."""

    estimate: Floats
    low: Floats
    high: Floats

    def holds(self, verdict: Verdict, log_margin: float) -> Flags:
        """Where the interval allows this verdict, by the rule of ``verdict_of``."""
        within = (-log_margin < self.low) & (self.high < log_margin)
        if verdict is Verdict.NO_DIFFERENCE:
            return within
        if verdict is Verdict.IMPROVEMENT:
            return ~within & (self.low > 0)
        if verdict is Verdict.REGRESSION:
            return ~within & (self.high < 0)
        return ~within & ~(self.low > 0) & ~(self.high < 0)


def look_after_every_pair(effects: Floats, plan: DecisionPlan) -> Looks:
    """``effects`` of pairs in the order measured, shape (experiments, pairs)."""
    estimate, information, squares = running(effects, np.array(PAIR_INFORMATION))
    degrees = np.arange(effects.shape[-1], dtype=float)
    if plan.noise.degrees:
        alike = vary_alike(squares, degrees, plan.noise.squares, plan.noise.degrees, OTHER_NOISE)
        squares = squares + np.where(alike, plan.noise.squares, 0.0)
        degrees = degrees + np.where(alike, plan.noise.degrees, 0.0)
    width = half_width(information, squares, degrees, plan.level)
    return Looks(estimate, estimate - width, estimate + width)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Each experiment at its first verdict, or after its last pair: ``pairs`` used, ``estimate``, which verdict."""

    verdicts: dict[Verdict, Flags]
    pairs: NDArray[np.int64]
    estimate: Floats

    def count(self, verdict: Verdict) -> int:
        return int(self.verdicts[verdict].sum())


def stop_at_first_verdict(effects: Floats, plan: DecisionPlan) -> Stopped:
    """Runs every experiment until it says something or its pairs are used up."""
    looks = look_after_every_pair(effects, plan)
    undecided = looks.holds(Verdict.CANNOT_TELL, plan.log_margin)
    decided = ~undecided
    last = effects.shape[-1] - 1
    place = np.where(decided.any(axis=1), decided.argmax(axis=1), last)
    rows = np.arange(len(effects))
    names = (Verdict.IMPROVEMENT, Verdict.REGRESSION, Verdict.NO_DIFFERENCE, Verdict.CANNOT_TELL)
    verdicts = {name: looks.holds(name, plan.log_margin)[rows, place] for name in names}
    return Stopped(verdicts, place + 1, looks.estimate[rows, place])
