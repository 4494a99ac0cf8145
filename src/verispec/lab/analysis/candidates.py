"""A verdict for every candidate of a log, corrected for how many there were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from verispec.lab.analysis.comparisons import lanes_beside_controls
from verispec.lab.analysis.noise_figures import batches_for_noise
from verispec.lab.decision import Decision, DecisionPlan, decide, invalid
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.imports.imported_log import ImportedLane, ImportedLog
from verispec.lab.noise_bank import NoiseBank
from verispec.lab.statistics.block_effects import block_effects
from verispec.lab.statistics.evidence import combine
from verispec.lab.statistics.identical_lanes import lane_noise
from verispec.lab.statistics.multiplicity import e_benjamini_hochberg, selected_level

NO_CONTROL = "no control ran beside it"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One recipe of one experiment at one stage, with the lanes that can be compared."""

    experiment: str
    arm: str
    stage: str
    control_lanes: tuple[LaneValues, ...]
    lanes: tuple[LaneValues, ...]


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    experiment: str
    arm: str
    stage: str
    decision: Decision

    def as_dict(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "arm": self.arm,
            "stage": self.stage,
            **self.decision.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class CandidateVerdicts:
    """``rejected`` of ``searched`` comparable candidates differ from their controls by e-Benjamini-Hochberg at 5%."""

    entries: tuple[CandidateVerdict, ...]
    searched: int
    rejected: int
    level: float
    banks: tuple[NoiseBank, ...]


def candidate_verdicts(log: ImportedLog, plan: DecisionPlan, metric: str = "median") -> CandidateVerdicts:
    """Decides every candidate with the noise that the log's identical lanes show at its stage.

    Without that noise nothing could be said: nearly every candidate of such a log has one lane. The false share among
    the candidates called different is at most ``plan.alpha`` (e-Benjamini-Hochberg), and so is that of the intervals
    reported for them.
    """
    candidates = list(comparable(log, metric))
    stages = sorted({one.stage for one in candidates}, key=int)
    banks = {stage: noise_bank(log, stage, metric) for stage in stages}
    e_values = [_e_value(one, banks[one.stage]) for one in candidates]
    rejected = sum(e_benjamini_hochberg(e_values, plan.alpha))
    level = selected_level(plan.alpha, max(len(candidates), 1), rejected)
    plans = {
        stage: replace(plan, alpha=level, searched=1, noise=bank.noise, prior=bank.prior())
        for stage, bank in banks.items()
    }
    entries = [
        CandidateVerdict(
            one.experiment, one.arm, one.stage, decide(one.control_lanes, one.lanes, plans[one.stage])
        )
        for one in candidates
    ]
    entries.extend(_invalid(log, {(one.experiment, one.arm, one.stage) for one in candidates}))
    return CandidateVerdicts(tuple(entries), len(candidates), rejected, level, tuple(banks.values()))


def comparable(log: ImportedLog, metric: str) -> Iterator[Candidate]:
    """The candidates that had a control beside them, each with all its lanes, in the order of the log."""
    grouped: dict[tuple[str, str, str], tuple[dict[str, LaneValues], list[LaneValues]]] = {}
    for group in lanes_beside_controls(log, metric):
        for lane in group.candidates:
            controls, lanes = grouped.setdefault((lane.experiment, lane.arm, lane.stage), ({}, []))
            lanes.append(lane.values(metric, group.block))
            controls.update({one.lane: one.values(metric, group.block) for one in group.controls})
    for (experiment, arm, stage), (controls, lanes) in grouped.items():
        yield Candidate(experiment, arm, stage, tuple(controls.values()), tuple(lanes))


def _e_value(candidate: Candidate, bank: NoiseBank) -> float:
    blocks = block_effects(candidate.control_lanes, candidate.lanes, ["lane"])
    return combine(blocks, bank.noise).e_value()


def noise_bank(log: ImportedLog, stage: str, metric: str) -> NoiseBank:
    """The noise of the stage, and what all candidates of the log turned out to be worth, at whatever stage."""
    batches = batches_for_noise(log, stage, metric)
    noise = lane_noise(batches)
    evidence = [
        combine(block_effects(one.control_lanes, one.lanes, ["lane"]), noise)
        for one in comparable(log, metric)
    ]
    return NoiseBank(
        source=log.source,
        stage=stage,
        metric=metric,
        batches=tuple(tuple(batch) for batch in batches),
        effects=tuple(one.effect for one in evidence),
        standard_errors=tuple(one.standard_error for one in evidence),
    )


def _invalid(log: ImportedLog, judged: set[tuple[str, str, str]]) -> Iterator[CandidateVerdict]:
    """Candidates that cannot be judged: lanes with a fault, or none of them beside a control."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for lane in log.lanes:
        key = lane.experiment, lane.arm, lane.stage
        if key in judged or (lane.control and not lane.faults):
            continue
        noted = reasons.setdefault(key, [])
        noted.extend(reason for reason in _reasons(lane) if reason not in noted)
    for (experiment, arm, stage), found in reasons.items():
        yield CandidateVerdict(experiment, arm, stage, invalid(found))


def _reasons(lane: ImportedLane) -> tuple[str, ...]:
    if lane.faults:
        return lane.faults
    return (NO_CONTROL,) if lane.suite == "whole" else (f"other prompts than the suite's: {lane.suite}",)
