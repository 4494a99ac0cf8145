"""The smoke stage: does each arm start, pass the gate on a few prompts, and differ from the control where it must?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from verispec.bench.suites import Suite
from verispec.lab.decision import Decision
from verispec.lab.decision.decide import invalid
from verispec.lab.experiment.measured import MeasuredLane, StageLanes
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.experiment.stage import StageRunner
from verispec.lab.identity.compare import identity_difference
from verispec.lab.targets.target import Target

CRASHES = ("server-crashed-at-start", "server-died")


@dataclass(slots=True)
class Smoke:
    lanes: StageLanes = field(default_factory=StageLanes)
    verdicts: dict[str, Decision] = field(default_factory=dict)
    second_controls: list[str] = field(default_factory=list)


def run_smoke(
    experiment: Experiment,
    runner: StageRunner,
    observer: Observer,
    beginning: Callable[[str], None] = lambda arm: None,
) -> Smoke:
    """One short lane an arm, the control first: where that may not be measured, no candidate may.

    ``beginning`` is told the arm before each lane. The proofs about knobs are handed to ``runner``.
    """
    suite = smoke_suite(experiment.suite, experiment.stages.smoke_prompts)
    smoke, sound = Smoke(), {}
    observer.stage("smoke", len(experiment.arms))
    for order, arm in enumerate((CONTROL, *experiment.candidates)):
        beginning(arm)
        target, cap = experiment.arms[arm], experiment.stages.screen_cap
        lane = runner.run_one("smoke", arm, target, suite, cap, order)
        smoke.lanes.lanes.append(lane)
        verdict = smoke_verdict(lane)
        if verdict is None:
            sound[arm] = lane
        elif arm == CONTROL:
            reasons = [f"the control: {reason}" for reason in verdict.reasons]
            smoke.verdicts = {candidate: invalid(reasons) for candidate in experiment.candidates}
            return smoke
        else:
            smoke.verdicts[arm] = verdict
    runner.shown, inert = shown_by_difference(experiment, sound)
    smoke.verdicts |= inert
    smoke.second_controls = second_controls(sound)
    for arm in smoke.second_controls:
        observer.noticed(f"nothing that was observed of {arm} differs from the control")
    return smoke


def smoke_suite(suite: Suite, prompts: int) -> Suite:
    """The first few prompts, as a suite of another name: its lanes can never pass for those of the whole."""
    return Suite(f"{suite.name}:smoke", suite.version, suite.max_tokens, suite.prompts[:prompts])


def smoke_verdict(lane: MeasuredLane) -> Decision | None:
    """None for an arm that may go on. A crash is a verdict."""
    crashed = [one for one in lane.record["faults"] if one["name"] in CRASHES]
    if crashed:
        return invalid([f"crashed: {one['name']}: {one['detail']}" for one in crashed])
    return None if lane.valid else invalid(lane.reasons)


def second_controls(lanes: Mapping[str, MeasuredLane]) -> list[str]:
    """Arms in which nothing that was observed differs from the control: they measure the noise, whatever was meant."""
    control = lanes[CONTROL].record
    return [
        arm
        for arm, lane in lanes.items()
        if arm != CONTROL
        and not identity_difference(control["identity"] or {}, lane.record["identity"] or {})
        and lane.record["target"]["request"] == control["target"]["request"]
    ]


def shown_by_difference(
    experiment: Experiment, lanes: Mapping[str, MeasuredLane]
) -> tuple[dict[str, dict[str, str]], dict[str, Decision]]:
    """What the arms' counts show about knobs that must make a difference: proofs by arm, and verdicts on the inert."""
    shown: dict[str, dict[str, str]] = {}
    inert: dict[str, Decision] = {}
    control = experiment.arms[CONTROL]
    for arm in experiment.arms:
        knobs = _must_differ(experiment.arms[arm])
        if arm == CONTROL or not knobs or arm not in lanes:
            continue
        if _counts(lanes[arm]) == _counts(lanes[CONTROL]):
            names = ", ".join(sorted(knobs))
            reason = f"knobs-read: {names} is unread (the counts of every prompt are those of the control)"
            inert[arm] = invalid([reason])
        else:
            proof = "the counts are not those of the control"
            shown[arm] = dict.fromkeys(knobs, proof)
    own = _must_differ(control)
    if own:
        shown[CONTROL] = dict.fromkeys(own, "compared with each candidate")
    return shown, inert


def _must_differ(target: Target) -> set[str]:
    return {knob.name for knob in target.knobs() if (probe := target.probe(knob)) and probe.differs}


def _counts(lane: MeasuredLane) -> list[object]:
    names = ("passes", "drafted", "accepted")
    return [[(row.get("counts") or {}).get(name) for name in names] for row in lane.rows]
