"""Two lanes, or two groups of lanes, beside each other: identity, output, rates, and the two factors of the speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from verispec.lab.evidence_rows import LaneValues
from verispec.lab.experiment.measured import MeasuredLane, compare_arms, output_summary
from verispec.lab.identity.compare import identity_difference
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import LedgerError
from verispec.lab.metrics.lane_values import lane_values
from verispec.lab.metrics.summary import FACTORS, passes_inferred
from verispec.lab.statistics.two_factors import FactorEffect, two_factors

BESIDE = ("smoke", "repeat", "reference", "calibration")
"""Stages whose lanes stand beside those that are compared."""
COMPARED = ("rate_1_100", "full", "wall", "ttft", *FACTORS)


def lanes_called(ledger: Ledger, name: str) -> list[MeasuredLane]:
    """One lane by its id or digest, or the lanes of an arm in one stage: ``EXPERIMENT:ARM[:STAGE]``.

    Without a stage it is the last that compares arms, since lanes of different stages are asked different things.
    """
    number, _, rest = name.partition(":")
    if not rest:
        digest, record = ledger.find(name, "lane")
        return [MeasuredLane(digest, record, ledger.rows(record))]
    arm, _, stage = rest.partition(":")
    _, begun = ledger.find(number, "experiment-begun")
    found = []
    for digest in ledger.index.of_experiment(begun["experiment"], "lane"):
        record = ledger.get(digest)
        if record["arm"] == arm:
            found.append((digest, record))
    stages = [record["stage"] for _, record in found]
    comparing = [one for one in stages if one not in BESIDE]
    chosen = stage or (comparing or stages or [""])[-1]
    lanes = [
        MeasuredLane(digest, record, ledger.rows(record))
        for digest, record in found
        if record["stage"] == chosen
    ]
    if not lanes:
        told = ", ".join(dict.fromkeys(stages)) or "none"
        raise LedgerError(f"ledger: expected lanes of {name}, found those of stages: {told}")
    return lanes


def compare(first: Sequence[MeasuredLane], second: Sequence[MeasuredLane]) -> dict[str, Any]:
    """The second against the first. Rates are ratios of lane medians and decide nothing; invalid lanes are named."""
    difference = identity_difference(first[0].record["identity"] or {}, second[0].record["identity"] or {})
    return {
        "first": [lane.record["lane"] for lane in first],
        "second": [lane.record["lane"] for lane in second],
        "places": {"first": _places(first), "second": _places(second)},
        "invalid": [
            f"{lane.record['lane']}: {reason}" for lane in (*first, *second) for reason in lane.reasons
        ],
        "comparable": _comparable(first, second),
        "identity": {path: list(values) for path, values in difference.items()},
        "outputs": output_summary(compare_arms(first, second)),
        "metrics": {name: _medians(first, second, name) for name in COMPARED},
        "factors": _factors(first, second),
        "passes_inferred": any(passes_inferred(lane.rows) for lane in (*first, *second)),
    }


def _places(lanes: Sequence[MeasuredLane]) -> list[dict[str, str]]:
    """Where each lane stands."""
    return [
        {name: str(lane.record[name]) for name in ("lane", "experiment", "arm", "stage")} for lane in lanes
    ]


def _comparable(first: Sequence[MeasuredLane], second: Sequence[MeasuredLane]) -> list[str]:
    """Why rates of the two must not be put beside each other; empty when they may."""
    reasons = []
    for what in ("max_tokens", "temperature", "window"):
        values = {lane.record[what] for lane in (*first, *second)}
        if len(values) > 1:
            reasons.append(f"{what} differs: {', '.join(map(str, sorted(values)))}")
    suites = {lane.record["suite"]["sha256"] for lane in (*first, *second)}
    return [*reasons, "the suites differ"] if len(suites) > 1 else reasons


def _medians(
    first: Sequence[MeasuredLane], second: Sequence[MeasuredLane], name: str
) -> Mapping[str, float | None]:
    left, right = _mean_of_medians(first, name), _mean_of_medians(second, name)
    change = None if not left or right is None else 100 * (right / left - 1)
    return {"first": left, "second": right, "change_percent": change}


def _mean_of_medians(lanes: Sequence[MeasuredLane], name: str) -> float | None:
    found = [lane.record["summary"][name] for lane in lanes]
    medians = [one["median"] for one in found if one is not None]
    return sum(medians) / len(medians) if medians and len(medians) == len(found) else None


def _factors(first: Sequence[MeasuredLane], second: Sequence[MeasuredLane]) -> list[dict[str, Any]] | None:
    """The change of tokens per pass and of passes per second; None where a server does not count passes.

    Two lanes of no common block are put into one: then the intervals are unknown, and only the change is shown.
    """
    blocks = {lane.record["block"] for lane in first} & {lane.record["block"] for lane in second}
    values = [
        [_values(lane, name, bool(blocks)) for lane in lanes] for name in FACTORS for lanes in (first, second)
    ]
    if any(one is None for lanes in values for one in lanes):
        return None
    control_tokens, candidate_tokens, control_seconds, candidate_seconds = (
        [one for one in lanes if one is not None] for lanes in values
    )
    split = two_factors(control_tokens, candidate_tokens, control_seconds, candidate_seconds)
    return [_factor(one) for one in (split.speed, split.tokens_per_pass, split.passes_per_second)]


def _values(lane: MeasuredLane, name: str, blocked: bool) -> LaneValues | None:
    return lane_values(lane.record if blocked else {**lane.record, "block": "both"}, lane.rows, name)


def _factor(effect: FactorEffect) -> dict[str, Any]:
    bounds = [100 * math.expm1(one) if math.isfinite(one) else None for one in (effect.low, effect.high)]
    return {
        "name": effect.name,
        "change_percent": 100 * math.expm1(effect.effect),
        "interval_percent": bounds,
    }
