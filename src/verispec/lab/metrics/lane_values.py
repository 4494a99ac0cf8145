"""From a lane's raw rows to what a decision is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.lab.evidence_rows import LaneValues, PromptValue
from verispec.lab.metrics.rates import row_metrics

HEADLINE = "rate_1_100"


def lane_values(
    lane: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], metric: str = HEADLINE
) -> LaneValues | None:
    """One metric of a lane record and its rows; None when a row does not have it, as after a fault."""
    values = []
    for row in rows:
        value = None if row.get("fault") else getattr(row_metrics(row), metric)
        if value is None:
            return None
        values.append(PromptValue(row["prompt"], row["class"], value))
    if not values:
        return None
    return LaneValues(lane["lane"], lane["arm"], lane["block"], lane["device"], lane["order"], tuple(values))
