"""A decision as a record: the verdict, why, and the numbers behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from verispec.lab.decision.requirements import Requirement
from verispec.lab.decision.verdict import Verdict


def percent(log_effect: float) -> float:
    """A log effect as a change in percent: 0.00995 is +1%."""
    return 100 * math.expm1(min(log_effect, 300.0))


def rounded_percent(log_effect: float | None, digits: int = 3) -> float | None:
    """As ``percent``, for people; None for an effect that is not known or that nothing finds."""
    return None if log_effect is None else round(percent(log_effect), digits)


def _bounds(interval: tuple[float, float]) -> list[float | None]:
    return [round(percent(end), 3) if math.isfinite(end) else None for end in interval]


@dataclass(frozen=True, slots=True)
class Decision:
    """Effects are on the log scale (candidate over control); ``as_dict`` gives percent.

    ``interval`` is always-valid at level 1 - ``level`` and alone decides. ``shrunken`` is the estimate after taking
    back what selection adds. ``bootstrap`` and ``prompt_effects`` only describe. ``lane_deviation`` is the noise of one
    lane, log scale.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    effect: float | None = None
    interval: tuple[float, float] = (-math.inf, math.inf)
    level: float = 0.05
    e_value: float = 1.0
    shrunken: float | None = None
    bootstrap: tuple[float, float] | None = None
    lane_deviation: float | None = None
    lanes_needed: int | None = None
    blocks: int = 0
    control_lanes: int = 0
    candidate_lanes: int = 0
    prompt_effects: dict[str, float] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()

    @property
    def text(self) -> str:
        """The verdict as people read it."""
        if self.verdict is not Verdict.CANNOT_TELL:
            return str(self.verdict)
        more = "more lanes" if self.lanes_needed is None else f"{self.lanes_needed} more lanes"
        return f"cannot tell (needs {more})"

    def as_dict(self) -> dict[str, Any]:
        return {
            "verdict": str(self.verdict),
            "text": self.text,
            "reasons": list(self.reasons),
            "effect_percent": None if self.effect is None else round(percent(self.effect), 3),
            "interval_percent": _bounds(self.interval),
            "interval_level": round(1 - self.level, 6),
            "e_value": float(f"{self.e_value:.4g}"),
            "shrunken_percent": None if self.shrunken is None else round(percent(self.shrunken), 3),
            "bootstrap_percent": None if self.bootstrap is None else _bounds(self.bootstrap),
            "lane_deviation_percent": None
            if self.lane_deviation is None
            else round(100 * self.lane_deviation, 3),
            "lanes_needed": self.lanes_needed,
            "blocks": self.blocks,
            "control_lanes": self.control_lanes,
            "candidate_lanes": self.candidate_lanes,
            "prompts": len(self.prompt_effects),
            "prompt_effects_percent": {
                prompt: round(percent(effect), 3) for prompt, effect in self.prompt_effects.items()
            },
            "requirements": [one.as_dict() for one in self.requirements],
        }
