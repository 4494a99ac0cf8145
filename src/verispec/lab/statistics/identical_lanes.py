"""Lanes that should not differ: how much do they, and do batches of them differ from each other?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from verispec.errors import OptionError
from verispec.lab.statistics.evidence import LaneNoise


@dataclass(frozen=True, slots=True)
class BatchNoise:
    """One metric over batches of identical lanes, in the metric's own unit.

    ``within`` is the pooled standard deviation of lanes of one batch, ``total`` that of all lanes; ``f`` and ``p`` test
    "the batches do not differ" (one-way analysis of variance).
    """

    batches: int
    lanes: int
    mean: float
    within: float
    total: float
    f: float
    p: float

    @property
    def variation(self) -> float:
        """Coefficient of variation of a lane within its batch."""
        return self.within / self.mean


def batch_noise(batches: Sequence[Sequence[float]]) -> BatchNoise:
    """Of at least two batches with at least two lanes each."""
    groups = [np.asarray(batch, float) for batch in batches]
    if len(groups) < 2 or min(len(group) for group in groups) < 2:
        raise OptionError(
            "batches of identical lanes: expected two with at least two lanes each, found fewer"
        )
    lanes = np.concatenate(groups)
    squares = sum(float(np.square(group - group.mean()).sum()) for group in groups)
    f, p = stats.f_oneway(*groups)
    return BatchNoise(
        batches=len(groups),
        lanes=len(lanes),
        mean=float(lanes.mean()),
        within=float(np.sqrt(squares / (len(lanes) - len(groups)))),
        total=float(lanes.std(ddof=1)),
        f=float(f),
        p=float(p),
    )


def lane_noise(batches: Sequence[Sequence[float]]) -> LaneNoise:
    """The noise of one lane on the log scale, from batches of identical lanes (values above zero)."""
    logs = [np.log(np.asarray(batch, float)) for batch in batches]
    return LaneNoise(
        sum(float(np.square(group - group.mean()).sum()) for group in logs),
        sum(len(group) - 1 for group in logs),
    )
