"""Everything that can be said of an imported log, as one report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verispec.lab.analysis.candidates import CandidateVerdicts, candidate_verdicts, noise_bank
from verispec.lab.analysis.comparisons import Comparisons, comparisons
from verispec.lab.analysis.noise_figures import (
    ControlPlaces,
    DevicePaces,
    Luck,
    control_places,
    device_paces,
    luck,
    noise_of,
)
from verispec.lab.decision import DecisionPlan
from verispec.lab.imports.imported_log import ImportedLog
from verispec.lab.noise_bank import NoiseBank
from verispec.lab.statistics.fixed_size import lanes_per_arm
from verispec.lab.statistics.identical_lanes import BatchNoise

METRICS = ("median", "mean", "p10", "full")
EFFECTS = (0.01, 0.02, 0.03, 0.05)


@dataclass(frozen=True, slots=True)
class LogReport:
    log: ImportedLog
    stage: str
    noise: dict[str, BatchNoise]
    devices: DevicePaces
    luck: tuple[Luck, ...]
    controls: ControlPlaces
    comparisons: Comparisons
    lanes_per_arm: dict[float, int]
    verdicts: CandidateVerdicts

    def banks(self) -> list[NoiseBank]:
        """Its noise and its candidates' effects, for every stage and metric that identical lanes were measured in."""
        stages = sorted({lane.stage for lane in self.log.valid}, key=int)
        return [noise_bank(self.log, stage, metric) for stage in stages for metric in METRICS]

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.log.source,
            "sha256": self.log.digest,
            "lanes": len(self.log.lanes),
            "valid_lanes": len(self.log.valid),
            "noise_stage": self.stage,
            "noise": {name: _noise(one) for name, one in self.noise.items()},
            "devices": self.devices.as_dict(),
            "luck": [one.as_dict() for one in self.luck],
            "controls": self.controls.as_dict(),
            "comparisons": self.comparisons.as_dict(),
            "lanes_per_arm_fixed_size": {
                f"{effect:.0%}": lanes for effect, lanes in self.lanes_per_arm.items()
            },
            "candidates_compared": self.verdicts.searched,
            "candidates_different": self.verdicts.rejected,
            "interval_level": round(1 - self.verdicts.level, 6),
            "verdicts": Counter(str(one.decision.verdict) for one in self.verdicts.entries),
            "candidates": [one.as_dict() for one in self.verdicts.entries],
        }


def _noise(noise: BatchNoise) -> dict[str, Any]:
    return {
        "batches": noise.batches,
        "lanes": noise.lanes,
        "mean": round(noise.mean, 3),
        "within_batch_sd": round(noise.within, 3),
        "cv_percent": round(100 * noise.variation, 3),
        "f": round(noise.f, 3),
        "p": round(noise.p, 4),
    }


def report_log(
    log: ImportedLog,
    plan: DecisionPlan,
    thresholds: Sequence[float],
    stage: str = "512",
    metric: str = "median",
) -> LogReport:
    """``stage`` is the one whose noise is tabled; every candidate is judged at its own."""
    noise = {name: noise_of(log, stage, name) for name in METRICS}
    return LogReport(
        log=log,
        stage=stage,
        noise=noise,
        devices=device_paces(log, stage, metric),
        luck=tuple(luck(log, threshold) for threshold in thresholds),
        controls=control_places(log),
        comparisons=comparisons(log, metric),
        lanes_per_arm={effect: lanes_per_arm(noise[metric].variation, effect) for effect in EFFECTS},
        verdicts=candidate_verdicts(log, plan, metric),
    )
