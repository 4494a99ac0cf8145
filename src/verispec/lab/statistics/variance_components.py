"""Where the noise of a lane comes from: the lane as a whole, or its prompts one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verispec.errors import OptionError
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.statistics.block_effects import log_values, shared_prompts


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Standard deviations on the log scale.

    ``prompt``: how much prompts differ, which pairing removes. ``lane``: what moves all prompts of a lane together.
    ``prompt_in_lane``: what one prompt does on its own in one lane, which more prompts average away.
    """

    prompt: float
    lane: float
    prompt_in_lane: float
    lanes: int
    prompts: int

    def lane_mean(self, prompts: int) -> float:
        """Standard deviation of a lane's mean over ``prompts`` prompts."""
        return math.sqrt(self.lane**2 + self.prompt_in_lane**2 / prompts)


def variance_components(batches: Sequence[Sequence[LaneValues]]) -> VarianceComponents:
    """From batches of identical lanes with values by prompt: two-way analysis of variance, batches taken out.

    Expected mean squares of lanes and of the remainder are solved for the components (S. R. Searle, G. Casella and
    C. E. McCulloch, "Variance Components", 1992, chapter 4); a negative solution is zero.
    """
    lanes = [lane for batch in batches for lane in batch]
    prompts = shared_prompts(lanes)
    degrees = sum(len(batch) - 1 for batch in batches)
    if len(prompts) < 2 or degrees < 1:
        raise OptionError("variance components: expected two prompts and two identical lanes, found fewer")
    lane_squares = rest_squares = 0.0
    for batch in batches:
        logs = np.stack([log_values(lane, prompts) for lane in batch])
        by_lane = logs.mean(axis=1, keepdims=True)
        by_prompt = logs.mean(axis=0, keepdims=True)
        lane_squares += len(prompts) * float(np.square(by_lane - logs.mean()).sum())
        rest_squares += float(np.square(logs - by_lane - by_prompt + logs.mean()).sum())
    rest = rest_squares / (degrees * (len(prompts) - 1))
    lane = max(lane_squares / degrees - rest, 0.0) / len(prompts)
    means = np.mean([log_values(each, prompts) for each in lanes], axis=0)
    between = max(float(means.var(ddof=1)) - rest / len(lanes), 0.0)
    return VarianceComponents(math.sqrt(between), math.sqrt(lane), math.sqrt(rest), len(lanes), len(prompts))
