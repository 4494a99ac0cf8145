"""The history of records: what each arm of each experiment reached, with its interval, and whether it beat what was."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.stats import t as student

from verispec.lab.ledger.index import Index

Brief = Mapping[str, Any]
LEVEL = 0.95
NOT_COMPARED = ("smoke", "reference")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The valid lanes of one arm in one stage. ``rate`` is the geometric mean of their medians (tokens/s, rate 1-100);
    ``ends`` its 95% t interval over lanes, None for a lane alone. ``standing``: "record", "within the noise" of the
    record (higher, and the intervals overlap), "no interval" (higher, of one lane) or nothing."""

    experiment: str
    arm: str
    stage: str
    began: float
    lanes: int
    rate: float
    ends: tuple[float, float] | None
    verdict: str
    standing: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Measurements that may stand beside each other: same engine, model, suite, cap and machine, in order of time."""

    engine: str
    model: str
    suite: str
    cap: int
    host: str
    measurements: tuple[Measurement, ...]


def record_history(index: Index) -> list[Series]:
    """Every series of the ledger, the one measured last first. Stages are never pooled."""
    verdicts = {
        (brief["experiment"], arm): verdict["text"]
        for brief in index.briefs("experiment")
        for arm, verdict in brief["verdicts"].items()
    }
    groups: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Brief]]] = {}
    for lane in reversed(index.briefs("lane")):
        if lane["valid"] and lane["stage"] not in NOT_COMPARED and lane["rate_1_100_median"]:
            series = tuple(lane[name] for name in ("engine", "model", "suite_sha256", "max_tokens", "host"))
            place = (lane["experiment"], lane["stage"], lane["arm"])
            groups.setdefault(series, {}).setdefault(place, []).append(lane)
    found = [_series(places, verdicts) for places in groups.values()]
    return sorted(found, key=lambda one: -one.measurements[-1].began)


def _series(places: Mapping[tuple[Any, ...], list[Brief]], verdicts: Mapping[Any, str]) -> Series:
    measured = [_measurement(lanes, verdicts) for lanes in places.values()]
    first = next(iter(places.values()))[0]
    return Series(
        engine=str(first["engine"]),
        model=str(first["model"]),
        suite=str(first["suite_name"]),
        cap=int(first["max_tokens"]),
        host=str(first["host"] or "unknown machine"),
        measurements=with_standing(sorted(measured, key=lambda one: one.began)),
    )


def _measurement(lanes: Sequence[Brief], verdicts: Mapping[Any, str]) -> Measurement:
    logs = [math.log(lane["rate_1_100_median"]) for lane in lanes]
    mean, ends = statistics.fmean(logs), None
    if len(logs) > 1:
        width = student.ppf((1 + LEVEL) / 2, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        ends = (math.exp(mean - width), math.exp(mean + width))
    lane = lanes[0]
    verdict = verdicts.get((lane["experiment"], lane["arm"]), "")
    return Measurement(
        lane["experiment"],
        lane["arm"],
        lane["stage"],
        lane["began"],
        len(lanes),
        math.exp(mean),
        ends,
        verdict,
    )


def with_standing(measured: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Each measurement beside the record at its time. A record is beaten only where the whole interval lies above the
    record's own: the best of several equal draws is higher than the others, and no record."""
    found = []
    record: Measurement | None = None
    for one in measured:
        standing = ""
        if record is None or record.ends is None:
            standing = "no interval" if one.ends is None else "record"
        elif one.ends is not None and one.ends[0] > record.ends[1]:
            standing = "record"
        elif one.rate > record.rate:
            standing = "no interval" if one.ends is None else "within the noise"
        if standing == "record":
            record = one
        found.append(replace(one, standing=standing))
    return tuple(found)
