"""Where configurations stand after a rung, and which of them are certainly behind. The others stay.

Halving by rank would throw away the better half of equals, and the winner would be the luckiest. Here a configuration
goes only when its always-valid interval shows that another one is faster, or that it cannot gain what matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from verispec.lab.decision import Decision, DecisionPlan, Verdict, decide
from verispec.lab.decision.decide import invalid
from verispec.lab.decision.decision import percent
from verispec.lab.evidence_rows import LaneValues

UNTOLD = float("-inf")


@dataclass(frozen=True, slots=True)
class Standing:
    """``decision`` is against the control, corrected for all configurations; ``behind`` says why it goes, "" while it
    stays."""

    arm: str
    decision: Decision
    behind: str = ""

    @property
    def worth(self) -> float:
        """The effect after taking back what selection adds; log scale."""
        if self.decision.shrunken is not None:
            return self.decision.shrunken
        return UNTOLD if self.decision.effect is None else self.decision.effect


def standings(
    control: Sequence[LaneValues],
    values: Mapping[str, Sequence[LaneValues]],
    refused: Mapping[str, Sequence[str]],
    plan: DecisionPlan,
    giving_up: DecisionPlan,
) -> list[Standing]:
    """Every arm of ``values`` (its valid lanes), the best first; ``refused`` are arms that are invalid, and why.

    ``plan`` gives verdicts, ``giving_up`` is the level at which an arm may go.
    """
    found = [
        Standing(arm, invalid(refused[arm]) if arm in refused else decide(control, lanes, plan))
        for arm, lanes in values.items()
    ]
    found.sort(key=lambda one: -one.worth)
    leader = found[0].arm
    return [replace(one, behind=_behind(one, leader, control, values, giving_up)) for one in found]


def _behind(
    one: Standing,
    leader: str,
    control: Sequence[LaneValues],
    values: Mapping[str, Sequence[LaneValues]],
    giving_up: DecisionPlan,
) -> str:
    """Why an arm goes; "" when nothing shows that it must."""
    if one.decision.verdict is Verdict.INVALID:
        return f"invalid: {one.decision.reasons[0]}"
    _, high = decide(control, values[one.arm], giving_up).interval
    if high < giving_up.log_margin:
        return f"it gains {percent(high):+.2f}% at most, less than the margin"
    if one.arm == leader:
        return ""
    _, high = decide(values[leader], values[one.arm], giving_up).interval
    return f"it is at least {-percent(high):.2f}% slower than {leader}" if high < 0 else ""
