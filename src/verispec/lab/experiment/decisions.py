"""Decisions as evidence: a record names the lanes, the plan and what else went in, so that anyone can decide again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verispec.lab.decision import Decision, DecisionPlan, decide, promote
from verispec.lab.experiment.measured import StageLanes, compare_arms, lane_called, output_summary
from verispec.lab.experiment.promotion_lanes import PromotionLanes, evidence_record, lanes_behind
from verispec.lab.experiment.spec import CONTROL, plan_of, plan_record
from verispec.lab.ledger.ledger import Ledger

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """What a decision was made from, beside its lanes. ``promotion`` is None but for a promotion."""

    experiment: str
    stage: str
    arm: str
    metric: str
    plan: DecisionPlan
    promotion: PromotionLanes | None = None


@dataclass(frozen=True, slots=True)
class DecidedAgain:
    """What the lanes, the plan and the rest of a decision's record lead to. ``evidence`` is a promotion's as JSON."""

    decision: Decision
    evidence: Record | None


def decision_record(given: DecisionInput, decision: Decision, lanes: StageLanes) -> Record:
    """The record of a decision. ``given_up``: it says that too many lanes failed, and not what the others say."""
    control, candidate = lanes.of(CONTROL), lanes.of(given.arm)
    return {
        "kind": "decision",
        "experiment": given.experiment,
        "stage": given.stage,
        "arm": given.arm,
        "metric": given.metric,
        "plan": plan_record(given.plan),
        "control_lanes": [lane.digest for lane in control],
        "candidate_lanes": [lane.digest for lane in candidate],
        "promotion": None if given.promotion is None else given.promotion.record(),
        "outputs": output_summary(compare_arms(lanes.valid(CONTROL), lanes.valid(given.arm))),
        "decision": decision.as_dict(),
        "verdict": decision.text,
        "from_lanes": not _without_lanes(decision),
    }


def decide_again(ledger: Ledger, record: Mapping[str, Any]) -> DecidedAgain:
    """Decides as a record's decision was made. LedgerError for lanes that cannot have been behind a promotion."""
    digests = (*record["control_lanes"], *record["candidate_lanes"])
    lanes = StageLanes([lane_called(ledger, digest) for digest in digests])
    plan, metric = plan_of(record["plan"]), record["metric"]
    control, candidate = lanes.values(CONTROL, metric), lanes.values(record["arm"], metric)
    if record["promotion"] is None:
        return DecidedAgain(decide(control, candidate, plan), None)
    evidence = lanes_behind(ledger, record, lanes).evidence()
    return DecidedAgain(promote(control, candidate, plan, evidence), evidence_record(evidence))


def _without_lanes(decision: Decision) -> bool:
    return decision.effect is None
