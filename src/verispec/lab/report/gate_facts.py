"""Which rules of the gate held on how many lanes, and every lane that does not count, with why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verispec.lab.gate.rules import RULES
from verispec.lab.report.experiment_facts import ExperimentFacts

INTERRUPTED = "no end: the lane runs still, or it was interrupted"


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """``says`` is the rule in a sentence, ``broken`` the lanes on which it did not hold."""

    name: str
    says: str
    held: int
    asked: int
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InvalidLane:
    lane: str
    stage: str
    arm: str
    device: str
    reasons: Sequence[str]


def rules_held(facts: ExperimentFacts) -> list[RuleFacts]:
    """Every rule, over all lanes that came to their end."""
    found = []
    for name, rule in RULES.items():
        judged = [
            (lane.name, one) for lane in facts.lanes for one in lane.record["gate"] if one["name"] == name
        ]
        broken = tuple(lane for lane, one in judged if not one["holds"])
        says = (rule.__doc__ or "").split("\n\n")[0].strip()
        found.append(RuleFacts(name, says, len(judged) - len(broken), len(judged), broken))
    return found


def invalid_lanes(facts: ExperimentFacts) -> list[InvalidLane]:
    """Those that the gate refuses, and those that were cut off before it could."""
    found = [
        InvalidLane(lane.name, lane.record["stage"], lane.record["arm"], lane.record["device"], lane.reasons)
        for lane in facts.invalid_lanes()
    ]
    return found + [
        InvalidLane(one["lane"], one["stage"], one["arm"], one["device"], [INTERRUPTED])
        for one in facts.interrupted
    ]
