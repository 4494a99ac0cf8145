"""What a list shows of a record, so that a list of thousands reads the index and no evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]
VERDICT = (
    "verdict", "text", "effect_percent", "interval_percent", "interval_level", "shrunken_percent", "control_lanes",
    "candidate_lanes",
)  # fmt: skip
LANE = (
    "lane", "experiment", "stage", "arm", "block", "device", "suite_name", "max_tokens", "valid", "began", "ended",
)  # fmt: skip
EXPERIMENT = ("experiment", "name", "intent", "suite_name", "candidates", "began", "ended")


def brief(record: Record) -> dict[str, Any]:
    """The few facts of a lane or an experiment; nothing for other kinds."""
    kind = record["kind"]
    if kind in ("lane", "lane-begun"):
        return _lane(record)
    if kind in ("experiment", "experiment-begun"):
        return {
            **{name: record.get(name) for name in EXPERIMENT},
            "verdicts": {
                arm: {
                    **{name: one.get(name) for name in VERDICT},
                    "reason": next(iter(one.get("reasons") or ()), ""),
                }
                for arm, one in record.get("verdicts", {}).items()
            },
            "arguments": {
                arm: " ".join(target.get("arguments", ()))
                for arm, target in record.get("targets", {}).items()
            },
        }
    return {}


def _lane(record: Record) -> dict[str, Any]:
    summary = record.get("summary") or {}
    target = record.get("target") or {}
    host = (record.get("identity") or {}).get("host") or {}
    return {
        **{name: record.get(name) for name in LANE},
        "engine": target.get("profile"),
        "model": target.get("model"),
        "host": host.get("cpu"),
        "suite_sha256": (record.get("suite") or {}).get("sha256"),
        "failed": [one["name"] for one in record.get("gate", ()) if not one["holds"]],
        **{
            f"{name}_{statistic}": (summary.get(name) or {}).get(statistic)
            for name, statistic in (("rate_1_100", "median"), ("rate_1_100", "p10"), ("full", "median"))
        },
    }
