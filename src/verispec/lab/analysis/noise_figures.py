"""How noisy a log is: batches of identical lanes, the chance of a lucky lane, and where the controls ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from verispec.errors import OptionError
from verispec.lab.imports.imported_log import ImportedLane, ImportedLog
from verispec.lab.statistics.identical_lanes import BatchNoise, batch_noise

FIRST_HUNDRED = frozenset({"median", "mean", "p10"})
"""Metrics over the rates of tokens 1 to 100."""

FEWEST_LANES = 4
"""A batch of identical lanes counts when it is a whole one; two controls among candidates are not such a batch."""


def identical_batches(log: ImportedLog, stage: str) -> list[list[ImportedLane]]:
    """Batches of at least four lanes that all ran the same recipe over the whole suite."""
    return [
        batch
        for batch in log.batches()
        if len(batch) >= FEWEST_LANES
        and len({lane.arm for lane in batch}) == 1
        and {lane.stage for lane in batch} == {stage}
        and {lane.suite for lane in batch} == {"whole"}
    ]


def metric_values(batches: Sequence[Sequence[ImportedLane]], metric: str) -> list[list[float]]:
    """The metric of each lane, for the batches of which every lane has it."""
    return [
        [lane.metrics[metric] for lane in batch]
        for batch in batches
        if all(metric in lane.metrics for lane in batch)
    ]


def noise_of(log: ImportedLog, stage: str, metric: str) -> BatchNoise:
    """Mean and spread of identical lanes, in the metric's unit."""
    return batch_noise(_known(log, stage, metric))


def batches_for_noise(log: ImportedLog, stage: str, metric: str) -> list[list[float]]:
    """The batches of identical lanes that a decision at this stage may learn the noise from.

    A rate over tokens 1 to 100 is the same measurement whatever the cap, so its noise is learned from every stage.
    """
    stages = sorted({lane.stage for lane in log.valid}) if metric in FIRST_HUNDRED else [stage]
    return [values for one in stages for values in _known(log, one, metric)]


def _known(log: ImportedLog, stage: str, metric: str) -> list[list[float]]:
    values = metric_values(identical_batches(log, stage), metric)
    if len(values) < 2:
        raise OptionError(
            f"{log.source}: expected two batches of identical lanes with {metric} at stage {stage}, "
            f"found {len(values)}"
        )
    return values


@dataclass(frozen=True, slots=True)
class Luck:
    """How often a lane of the log reached ``threshold`` in the median, and how often the best of four would."""

    threshold: float
    lanes: int
    reached: int

    @property
    def one_lane(self) -> float:
        return self.reached / self.lanes

    @property
    def best_of_four(self) -> float:
        return 1 - (1 - self.one_lane) ** 4

    def as_dict(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "lanes": self.lanes,
            "reached": self.reached,
            "one_lane": round(self.one_lane, 4),
            "best_of_four": round(self.best_of_four, 4),
        }


def luck(log: ImportedLog, threshold: float) -> Luck:
    """Over all valid lanes of the whole suite, whatever they ran: few recipes made any difference."""
    lanes = [
        lane.metrics["median"] for lane in log.valid if lane.suite == "whole" and "median" in lane.metrics
    ]
    return Luck(threshold, len(lanes), sum(value >= threshold for value in lanes))


@dataclass(frozen=True, slots=True)
class ControlPlaces:
    """Devices by how many controls they ran; ``p_value``: chance of so uneven a split if all were equally likely."""

    by_device: dict[str, int]
    p_value: float

    @property
    def total(self) -> int:
        return sum(self.by_device.values())

    def as_dict(self) -> dict[str, Any]:
        return {"total": self.total, "by_device": self.by_device, "p_value": float(f"{self.p_value:.3g}")}


def control_places(log: ImportedLog) -> ControlPlaces:
    """Whether device and arm can be told apart: controls that all ran on one device measure the device."""
    devices = sorted({lane.device for lane in log.lanes})
    counts = Counter(lane.device for lane in log.valid if lane.control)
    by_device = {device: counts[device] for device in devices}
    if not counts or len(devices) < 2:
        return ControlPlaces(by_device, 1.0)
    return ControlPlaces(by_device, float(stats.chisquare(list(by_device.values())).pvalue))


@dataclass(frozen=True, slots=True)
class DevicePaces:
    """How far identical lanes of each device are from their batch's mean, in the metric's unit; ``p``: by chance."""

    offsets: dict[str, float]
    p: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "offsets": {name: round(one, 3) for name, one in self.offsets.items()},
            "p": round(self.p, 4),
        }


def device_paces(log: ImportedLog, stage: str, metric: str) -> DevicePaces:
    """From batches of identical lanes, one a device: two-way analysis of variance, batches taken out."""
    batches = [
        batch for batch in identical_batches(log, stage) if all(metric in lane.metrics for lane in batch)
    ]
    away: dict[str, list[float]] = {}
    for batch in batches:
        mean = sum(lane.metrics[metric] for lane in batch) / len(batch)
        for lane in batch:
            away.setdefault(lane.device, []).append(lane.metrics[metric] - mean)
    offsets = {device: sum(values) / len(values) for device, values in sorted(away.items())}
    between = sum(len(values) * offsets[device] ** 2 for device, values in away.items())
    total = sum(value**2 for values in away.values() for value in values)
    freedom = len(offsets) - 1
    rest = sum(len(batch) - 1 for batch in batches) - freedom
    if freedom < 1 or rest < 1 or total == between:
        return DevicePaces(offsets, 1.0)
    f = (between / freedom) / ((total - between) / rest)
    return DevicePaces(offsets, float(stats.f.sf(f, freedom, rest)))
