"""The lanes behind a promotion, and what they prove beside their rates; kept so that it can be derived again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verispec.lab.decision import PromotionEvidence
from verispec.lab.decision.promotion import REFERENCE
from verispec.lab.experiment.measured import (
    MeasuredLane,
    StageLanes,
    compare_arms,
    drafts,
    identical_servers,
    lane_called,
)
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.gate.promotion_rules import judge_for_promotion
from verispec.lab.gate.rules import failures
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import LedgerError
from verispec.lab.metrics.outputs import exactness

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PromotionLanes:
    """``confirmed`` are the lanes whose rates decide, of the control and of ``arm``; ``repeated`` those of ``arm`` on
    fresh servers once more.

    ``reference`` are those of the target alone, None where the experiment names no reference and the control stands for
    it. ``selected_on`` are ids of the lanes that chose ``arm``, ``reuse`` the flags that let requests profit from
    earlier ones.
    """

    arm: str
    confirmed: StageLanes
    repeated: Sequence[MeasuredLane]
    reference: Sequence[MeasuredLane] | None
    selected_on: frozenset[str]
    reuse: tuple[tuple[str, ...], ...]

    def evidence(self) -> PromotionEvidence:
        """What a promotion needs beside fresh lanes, of the valid ones.

        Each lane that decides must meet the rules of a promotion; whatever the candidate wrote, repeats included, is
        compared with every lane of the reference.
        """
        control, candidate = self.confirmed.valid(CONTROL), self.confirmed.valid(self.arm)
        repeated = [lane for lane in self.repeated if lane.valid]
        alone = control if self.reference is None else [lane for lane in self.reference if lane.valid]
        faults = {
            failure
            for lane in (*control, *candidate)
            for failure in failures(judge_for_promotion(lane.record, lane.rows, self.reuse))
        }
        return PromotionEvidence(
            selected_on=self.selected_on,
            outcome=exactness(compare_arms([*candidate, *repeated], alone)),
            against=CONTROL if self.reference is None else REFERENCE,
            drafts=drafts(alone),
            identical_servers=identical_servers(repeated),
            suite_faults=tuple(sorted(faults)),
        )

    def record(self) -> Record:
        """The lanes and the evidence; the lanes that decide stand in the decision's own record."""
        return {
            "repeated_lanes": [lane.digest for lane in self.repeated],
            "reference_lanes": None if self.reference is None else [lane.digest for lane in self.reference],
            "reuse": [list(flags) for flags in self.reuse],
            **evidence_record(self.evidence()),
        }


def evidence_record(evidence: PromotionEvidence) -> Record:
    """The evidence as JSON."""
    return {
        "selected_on": sorted(evidence.selected_on),
        "outcome": evidence.outcome,
        "against": evidence.against,
        "drafts": evidence.drafts,
        "identical_servers": evidence.identical_servers,
        "suite_faults": None if evidence.suite_faults is None else list(evidence.suite_faults),
    }


def lanes_behind(ledger: Ledger, record: Mapping[str, Any], confirmed: StageLanes) -> PromotionLanes:
    """The lanes that a promotion's record names. LedgerError where one is not of its experiment, arm and stage."""
    promotion = record["promotion"]
    if "repeated_lanes" not in promotion:
        raise LedgerError("promotion: expected the lanes behind its evidence, found none named")
    arm = record["arm"]
    for lane in confirmed.lanes:
        _expect(lane, record["experiment"], lane.record["arm"], "confirmation")
    repeated = [lane_called(ledger, digest) for digest in promotion["repeated_lanes"]]
    for lane in repeated:
        _expect(lane, record["experiment"], arm, "repeat")
    reference = None
    if promotion["reference_lanes"] is not None:
        reference = [lane_called(ledger, digest) for digest in promotion["reference_lanes"]]
        for lane in reference:
            _expect(lane, record["experiment"], REFERENCE, REFERENCE)
    return PromotionLanes(
        arm=arm,
        confirmed=confirmed,
        repeated=repeated,
        reference=reference,
        selected_on=frozenset(promotion["selected_on"]),
        reuse=tuple(tuple(flags) for flags in promotion["reuse"]),
    )


def _expect(lane: MeasuredLane, experiment: str, arm: str, stage: str) -> None:
    found = (lane.record["experiment"], lane.record["arm"], lane.record["stage"])
    if found != (experiment, arm, stage):
        wanted, real = (" ".join(place) for place in ((experiment, arm, stage), found))
        raise LedgerError(f"promotion: expected lanes of {wanted}, found {lane.record['lane']} of {real}")
