"""What one lane is to do."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verispec.bench.suites import Suite
from verispec.lab.metrics.rates import WINDOW
from verispec.lab.suites.canaries import CanarySuite
from verispec.lab.targets.target import Target


@dataclass(frozen=True, slots=True)
class LaneRequest:
    """``cap`` is the most tokens of an answer; ``order`` the lane's place within its ``block``, ``wave`` its time.
    ``window`` is how many tokens a rate is taken over; None for a lane whose answers are scored and may be shorter.
    ``shown`` are knobs that a comparison with a control has shown to be read, and how."""

    experiment: str
    stage: str
    arm: str
    block: str
    order: int
    device: str
    target: Target
    suite: Suite
    cap: int
    canaries: CanarySuite
    wave: int = 0
    temperature: float = 0.0
    window: int | None = WINDOW
    shown: Mapping[str, str] = field(default_factory=dict)
    lane: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def place(self) -> dict[str, Any]:
        """Where the lane stands in its experiment, as every record of it says."""
        return {
            "lane": self.lane,
            "experiment": self.experiment,
            "stage": self.stage,
            "arm": self.arm,
            "block": self.block,
            "order": self.order,
            "wave": self.wave,
            "device": self.device,
        }

    def plan(self) -> dict[str, Any]:
        """What was to be run: target, suite, canaries."""
        prompts = [{"id": one.id, "class": one.category, "sha256": one.digest} for one in self.suite.prompts]
        return {
            "target": self.target.record(),
            "suite": {**self.suite.identity(), "prompts": prompts},
            "suite_name": self.suite.name,
            "canary_suite": self.canaries.identity(),
            "max_tokens": self.cap,
            "temperature": self.temperature,
            "window": self.window,
        }

    def body(self, model: str, text: str, cap: int) -> Mapping[str, Any]:
        """The request for one prompt."""
        return {
            "model": model,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": cap,
            "temperature": self.temperature,
            **self.target.profile.request,
            **self.target.request,
        }
