"""The slow end of a lane: its p10 over prompts, as a metric of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from verispec.lab.evidence_rows import LaneValues, PromptValue


def tail_lanes(lanes: Sequence[LaneValues]) -> list[LaneValues]:
    """The same lanes with one value: the 10% quantile of their prompts (linear interpolation)."""
    return [
        replace(
            lane,
            values=(PromptValue("p10", "tail", float(np.quantile([one.value for one in lane.values], 0.1))),),
        )
        for lane in lanes
    ]
