"""Promotion: an improvement that also holds on fresh data, exactly, in the tail, and twice over. Each is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from verispec.lab.decision.balance import imbalances
from verispec.lab.decision.decide import decide
from verispec.lab.decision.decision import Decision, percent
from verispec.lab.decision.plan import UNKNOWN_NOISE, DecisionPlan
from verispec.lab.decision.requirements import Requirement, Status
from verispec.lab.decision.tail import tail_lanes
from verispec.lab.decision.verdict import Verdict
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.metrics.outputs import DIFFERS

FEWEST_PROMPTS = 12
FEWEST_CLASSES = 5
FRESH_SERVERS = 2
REFERENCE = "reference"
"""The arm that an experiment declares to be the target alone."""


@dataclass(frozen=True, slots=True)
class PromotionEvidence:
    """What a promotion needs beside fresh lanes.

    selected_on: ids of the lanes on which this candidate was chosen.
    outcome: how its output compares at worst: "token-exact", "text-exact" (no token ids were told) or "differs"; None
        when nobody compared.
    against: with whose: the "reference", which the experiment declares to be the target alone, or the "control".
    drafts: whether that one drafted tokens, None when its server did not count them.
    identical_servers: fresh servers of the candidate that wrote identical tokens for the whole suite.
    suite_faults: what the strict gate of a promotion objects to (cap, temperature, window, reuse), None when nobody
        asked it.
    """

    selected_on: frozenset[str]
    outcome: str | None
    against: str
    drafts: bool | None
    identical_servers: int
    suite_faults: tuple[str, ...] | None


def promote(
    control: Sequence[LaneValues],
    candidate: Sequence[LaneValues],
    plan: DecisionPlan,
    evidence: PromotionEvidence,
) -> Decision:
    """The decision on lanes measured AFTER the candidate was chosen, and every requirement with its status.

    ``plan.searched`` is how many candidates were put to fresh data, not how many were screened: fresh data has not
    selected anyone. The verdict is ``promoted`` when all requirements are met, else what ``decide`` says.
    """
    decision = decide(control, candidate, plan)
    requirements = (
        _fresh(control, candidate, evidence),
        _exact(evidence),
        _effect(decision, plan),
        _tail(control, candidate, plan),
        _servers(evidence),
        _balance(control, candidate),
        _suite(control, candidate, evidence),
    )
    if decision.verdict is Verdict.INVALID or any(one.status is not Status.MET for one in requirements):
        open_ones = [
            f"not promoted: {one.name}, {one.detail}" for one in requirements if one.status is not Status.MET
        ]
        return replace(decision, reasons=(*decision.reasons, *open_ones), requirements=requirements)
    return replace(decision, verdict=Verdict.PROMOTED, requirements=requirements)


def _fresh(
    control: Sequence[LaneValues], candidate: Sequence[LaneValues], evidence: PromotionEvidence
) -> Requirement:
    name = "fresh data"
    reused = sorted(lane.lane for lane in (*control, *candidate) if lane.lane in evidence.selected_on)
    if reused:
        return Requirement(name, Status.FAILED, f"these lanes chose the candidate: {', '.join(reused)}")
    return Requirement(name, Status.MET, f"{len(control) + len(candidate)} lanes, none of which chose it")


def _exact(evidence: PromotionEvidence) -> Requirement:
    """What two speculating servers agree on may be wrong in both, so the other one must be the target alone."""
    name, outcome, against = "exact output", evidence.outcome, evidence.against
    if outcome is None:
        return Requirement(name, Status.NOT_SHOWN, f"no lane of the {against} to compare its output with")
    if outcome == DIFFERS:
        return Requirement(name, Status.FAILED, f"differs from the {against}")
    compared = f"{outcome} against the {against}"
    if evidence.drafts:
        return Requirement(name, Status.NOT_SHOWN, f"{compared}, which itself drafts tokens")
    if evidence.drafts is None and against != REFERENCE:
        unknown = "of which nothing shows that it drafts no tokens; [reference] declares the target alone"
        return Requirement(name, Status.NOT_SHOWN, f"{compared}, {unknown}")
    shown = (
        "which is declared to be the target alone" if evidence.drafts is None else "which drafts no tokens"
    )
    return Requirement(name, Status.MET, f"{compared}, {shown}")


def _effect(decision: Decision, plan: DecisionPlan) -> Requirement:
    name = "effect above the margin"
    low, high = decision.interval
    if low > plan.log_margin:
        return Requirement(
            name, Status.MET, f"at least {percent(low):+.2f}%, the margin is {100 * plan.margin:g}%"
        )
    status = Status.FAILED if high < plan.log_margin else Status.NOT_SHOWN
    return Requirement(
        name, status, f"the margin is {100 * plan.margin:g}%, the verdict so far {decision.text}"
    )


def _tail(control: Sequence[LaneValues], candidate: Sequence[LaneValues], plan: DecisionPlan) -> Requirement:
    """No loss in p10: its own interval excludes losing more than the tail's margin, and does not show a loss."""
    name = "no loss in p10"
    if any(len(lane.values) < 2 for lane in (*control, *candidate)):
        return Requirement(name, Status.NOT_SHOWN, "the lanes hold no values by prompt")
    tail_plan = replace(plan, noise=UNKNOWN_NOISE, margin=plan.tail_margin)
    tail = decide(tail_lanes(control), tail_lanes(candidate), tail_plan)
    low, high = tail.interval
    detail = f"p10 {tail.text}" if tail.effect is None else f"p10 changed by {percent(tail.effect):+.2f}%"
    if high < 0:
        return Requirement(name, Status.FAILED, detail)
    if low > -tail_plan.log_margin:
        return Requirement(name, Status.MET, f"{detail}, at worst {percent(low):+.2f}%")
    return Requirement(
        name, Status.NOT_SHOWN, f"{detail}; a loss of {100 * plan.tail_margin:g}% is not excluded"
    )


def _servers(evidence: PromotionEvidence) -> Requirement:
    enough = evidence.identical_servers >= FRESH_SERVERS
    return Requirement(
        "two fresh servers with identical tokens",
        Status.MET if enough else Status.NOT_SHOWN,
        f"{evidence.identical_servers} fresh servers wrote identical tokens",
    )


def _balance(control: Sequence[LaneValues], candidate: Sequence[LaneValues]) -> Requirement:
    name = "balanced over devices and time"
    found = imbalances(control, candidate)
    if found:
        return Requirement(name, Status.FAILED, "; ".join(found))
    return Requirement(name, Status.MET, "neither a device nor the order can pass for an effect")


def _suite(
    control: Sequence[LaneValues], candidate: Sequence[LaneValues], evidence: PromotionEvidence
) -> Requirement:
    name = "the whole suite"
    faults = list(evidence.suite_faults or ())
    prompts = min((len(lane.values) for lane in (*control, *candidate)), default=0)
    classes = min((len({one.kind for one in lane.values}) for lane in (*control, *candidate)), default=0)
    if prompts < FEWEST_PROMPTS:
        faults.append(f"{prompts} prompts, {FEWEST_PROMPTS} are needed")
    if classes < FEWEST_CLASSES:
        faults.append(f"{classes} classes, {FEWEST_CLASSES} are needed")
    if faults:
        return Requirement(name, Status.FAILED, "; ".join(faults))
    if evidence.suite_faults is None:
        return Requirement(name, Status.NOT_SHOWN, "the gate of a promotion was not asked")
    return Requirement(name, Status.MET, f"{prompts} prompts of {classes} classes")
