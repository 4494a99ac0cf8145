"""What a lane record says beyond what was seen: derived from its evidence, and derivable again by anyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.lab.gate.rules import is_valid, judge
from verispec.lab.metrics.outputs import output_digest
from verispec.lab.metrics.summary import lane_summary

DERIVED = ("gate", "valid", "summary", "output_sha256")


def derived(lane: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Gate, validity, summary and output digest of a lane from its record and raw rows."""
    seen = {name: value for name, value in lane.items() if name not in DERIVED}
    results = judge(seen, rows)
    return {
        "gate": [one.record() for one in results],
        "valid": is_valid(results),
        "summary": lane_summary(rows),
        "output_sha256": output_digest(rows),
    }
