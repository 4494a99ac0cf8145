"""Decisions as evidence: a record names the lanes, the plan and what else went in, so that anyone can decide again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verispec.lab.decision import Decision, DecisionPlan, PromotionEvidence, decide, promote
from verispec.lab.experiment.measured import (
    MeasuredLane,
    StageLanes,
    compare_arms,
    identical_servers,
    output_summary,
)
from verispec.lab.experiment.spec import CONTROL, plan_of, plan_record
from verispec.lab.gate.promotion_rules import judge_for_promotion
from verispec.lab.gate.rules import failures
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.outputs import DIFFERS, exactness
from verispec.lab.targets.profile import Profile

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """What a decision was made from, beside its lanes."""

    experiment: str
    stage: str
    arm: str
    metric: str
    plan: DecisionPlan
    evidence: PromotionEvidence | None = None


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
        "promotion": None if given.evidence is None else _evidence_record(given.evidence),
        "outputs": output_summary(compare_arms(lanes.valid(CONTROL), lanes.valid(given.arm))),
        "decision": decision.as_dict(),
        "verdict": decision.text,
        "from_lanes": not _without_lanes(decision),
    }


def decide_again(ledger: Ledger, record: Mapping[str, Any]) -> Decision:
    """The decision that the lanes, plan and evidence of a decision record lead to."""
    lanes = StageLanes(
        [_lane(ledger, digest) for digest in record["control_lanes"] + record["candidate_lanes"]]
    )
    plan, metric = plan_of(record["plan"]), record["metric"]
    control, candidate = lanes.values(CONTROL, metric), lanes.values(record["arm"], metric)
    if record["promotion"] is None:
        return decide(control, candidate, plan)
    return promote(control, candidate, plan, _evidence_of(record["promotion"]))


def promotion_evidence(
    profile: Profile,
    deciding: Sequence[MeasuredLane],
    candidate: Sequence[MeasuredLane],
    repeated: Sequence[MeasuredLane],
    reference: Sequence[MeasuredLane],
    selected_on: frozenset[str],
) -> PromotionEvidence:
    """What a promotion needs beside fresh lanes.

    ``deciding`` are the lanes whose rates decide, each of which must meet the rules of a promotion; ``candidate`` all
    lanes of the candidate, whose output is compared with the ``reference``'s; ``repeated`` its last fresh servers.
    """
    outcome = exactness(compare_arms(candidate, reference))
    faults = {
        failure
        for lane in deciding
        for failure in failures(judge_for_promotion(lane.record, lane.rows, profile))
    }
    return PromotionEvidence(
        selected_on=selected_on,
        exact_output=None if outcome is None else outcome != DIFFERS,
        identical_servers=identical_servers(repeated),
        suite_faults=tuple(sorted(faults)),
    )


def _without_lanes(decision: Decision) -> bool:
    return decision.effect is None


def _lane(ledger: Ledger, digest: str) -> MeasuredLane:
    record = ledger.get(digest)
    return MeasuredLane(digest, record, ledger.rows(record))


def _evidence_record(evidence: PromotionEvidence) -> Record:
    return {
        "selected_on": sorted(evidence.selected_on),
        "exact_output": evidence.exact_output,
        "identical_servers": evidence.identical_servers,
        "suite_faults": None if evidence.suite_faults is None else list(evidence.suite_faults),
    }


def _evidence_of(record: Mapping[str, Any]) -> PromotionEvidence:
    faults = record["suite_faults"]
    return PromotionEvidence(
        frozenset(record["selected_on"]),
        record["exact_output"],
        record["identical_servers"],
        None if faults is None else tuple(faults),
    )
