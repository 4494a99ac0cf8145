"""Every candidate lane against the controls that ran beside it, as a z score in units of the log's own noise.

This is how the log is described, not how it is decided: see ``candidates``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scipy import stats

from verispec.lab.analysis.noise_figures import noise_of
from verispec.lab.imports.imported_log import ImportedLane, ImportedLog


@dataclass(frozen=True, slots=True)
class Beside:
    """Lanes of one table that were started together: ``controls`` and ``candidates`` may be compared."""

    block: str
    controls: tuple[ImportedLane, ...]
    candidates: tuple[ImportedLane, ...]


def lanes_beside_controls(log: ImportedLog, metric: str) -> Iterator[Beside]:
    """The groups of whole-suite lanes started together that hold a control, as the table says, and a candidate."""
    for batch in log.batches():
        together: dict[str, list[ImportedLane]] = {}
        for lane in batch:
            if lane.suite == "whole" and metric in lane.metrics:
                together.setdefault(lane.stamp, []).append(lane)
        for stamp, lanes in together.items():
            controls = tuple(lane for lane in lanes if lane.control and "control" in lane.arm.lower())
            candidates = tuple(lane for lane in lanes if not lane.control)
            if controls and candidates:
                yield Beside(f"{batch[0].experiment}/{batch[0].batch}/{stamp}", controls, candidates)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``z``: difference of one candidate lane from the mean of its controls, over its standard deviation."""

    lane: ImportedLane
    z: float


@dataclass(frozen=True, slots=True)
class Comparisons:
    """``threshold`` is the |z| that one of so many comparisons exceeds by chance with probability 5% (Bonferroni)."""

    entries: tuple[Comparison, ...]
    threshold: float

    @property
    def losses(self) -> list[Comparison]:
        return [one for one in self.entries if one.z < -self.threshold]

    @property
    def gains(self) -> list[Comparison]:
        return [one for one in self.entries if one.z > self.threshold]

    def as_dict(self) -> dict[str, Any]:
        scores = [one.z for one in self.entries]
        return {
            "count": len(scores),
            "threshold": round(self.threshold, 3),
            "losses": len(self.losses),
            "gains": len(self.gains),
            "best_z": round(max(scores), 3) if scores else None,
            "worst_z": round(min(scores), 3) if scores else None,
        }


def comparisons(log: ImportedLog, metric: str = "median") -> Comparisons:
    """All of them; each against the noise of identical lanes at its own stage."""
    entries = []
    within: dict[str, float] = {}
    for group in lanes_beside_controls(log, metric):
        mean = sum(lane.metrics[metric] for lane in group.controls) / len(group.controls)
        widened = math.sqrt(1 + 1 / len(group.controls))
        for lane in group.candidates:
            if lane.stage not in within:
                within[lane.stage] = noise_of(log, lane.stage, metric).within
            entries.append(Comparison(lane, (lane.metrics[metric] - mean) / (within[lane.stage] * widened)))
    return Comparisons(tuple(entries), float(stats.norm.isf(0.025 / max(len(entries), 1))))
