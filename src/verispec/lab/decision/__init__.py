"""Decisions: a plan made before, lanes of two arms, the verdict they allow. ``decide`` and ``promote`` begin it."""

from verispec.lab.decision.decide import decide, invalid
from verispec.lab.decision.decision import Decision
from verispec.lab.decision.lane_order import PlannedLane, balanced_order
from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.promotion import PromotionEvidence, promote
from verispec.lab.decision.requirements import Requirement, Status
from verispec.lab.decision.verdict import Verdict

__all__ = [
    "Decision",
    "DecisionPlan",
    "PlannedLane",
    "PromotionEvidence",
    "Requirement",
    "Status",
    "Verdict",
    "balanced_order",
    "decide",
    "invalid",
    "promote",
]
