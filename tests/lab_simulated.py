"""Lanes of simulated servers: raw rows with exact times of known rates, from which everything is really derived."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from verispec.lab.experiment import stage
from verispec.lab.lane import device_claims, telemetry
from verispec.lab.lane.derived import derived
from verispec.lab.lane.request import LaneRequest
from verispec.lab.ledger.ledger import Ledger

ROWS = 16
"""Tokens of a pass, all of which arrive at once."""

Speeds = Mapping[str, float]
"""Tokens a second by the arm's name."""


class SimulatedLanes:
    """Takes the place of ``run_lane``. ``noise`` is the spread of a lane, log scale; ``spoil`` may change a record.

    ``drafted`` says how many tokens each answer of an arm was drafted (0 where nothing is said), None where its server
    does not count them.
    """

    def __init__(
        self,
        speeds: Speeds,
        noise: float = 0.01,
        texts: Mapping[str, int] | None = None,
        drafted: Mapping[str, float | None] | None = None,
        spoil: Callable[[dict[str, Any], int], None] | None = None,
    ) -> None:
        self._speeds = speeds
        self._noise = random.Random(11)
        self._spread = noise
        self._texts = texts or {}
        self._drafted = drafted or {}
        self._spoil = spoil
        self.requests: list[LaneRequest] = []

    def __call__(self, ledger: Ledger, request: LaneRequest, progress: object) -> tuple[str, dict[str, Any]]:
        number = len(self.requests)
        self.requests.append(request)
        ledger.add({"kind": "lane-begun", **request.place(), **request.plan(), "began": time.time()})
        lane = self._noise.gauss(0.0, self._spread)
        rows = [self._row(request, order, lane) for order in range(len(request.suite.prompts))]
        record = {
            "kind": "lane",
            **request.place(),
            **request.plan(),
            "began": time.time(),
            "ended": time.time(),
            "faults": [],
            "rows": [ledger.add(row) for row in rows],
            "canaries": [{"id": "one", "asked": 1, "passed": 1, "answers": ["yes"]}],
            "identity": {"process": {"listens": True}},
            "identity_missing": [],
            "identity_mismatches": [],
            "activation": [],
            "metrics_at_start": {},
            "log": None,
        }
        if self._spoil is not None:
            self._spoil(record, number)
        record |= derived(record, rows)
        return ledger.add(record), record

    def _row(self, request: LaneRequest, order: int, lane: float) -> dict[str, Any]:
        prompt = request.suite.prompts[order]
        rate = self._speeds[request.arm] * (1 + 0.05 * order) * (1 + lane)
        step = int(1e9 / rate)
        text = self._texts.get(request.arm, 0)
        events = [
            [100_000_000 + step * first, ROWS, list(range(text + first, text + first + ROWS)), "words ", ""]
            for first in range(0, request.cap, ROWS)
        ]
        return {
            "kind": "row",
            "lane": request.lane,
            "prompt": prompt.id,
            "class": prompt.category,
            "prompt_sha256": prompt.digest,
            "order": order,
            "request": {"max_tokens": request.cap, "temperature": request.temperature},
            "events": events,
            "token_source": "ids",
            "text_sha256": f"{text:064x}",
            "finish_reason": "length",
            "usage": {"prompt_tokens": 69, "completion_tokens": request.cap},
            "cached_tokens": 0,
            "counts": self._counts(request),
            "fault": None,
        }

    def _counts(self, request: LaneRequest) -> dict[str, float]:
        counts = {"passes": float(request.cap // ROWS)}
        drafted = self._drafted.get(request.arm, 0.0)
        return counts if drafted is None else {**counts, "drafted": drafted}


def simulate(monkeypatch: pytest.MonkeyPatch, speeds: Speeds, **how: Any) -> SimulatedLanes:
    """Experiments of this test run on simulated lanes."""
    lanes = SimulatedLanes(speeds, **how)
    for place in (stage, telemetry):  # where lanes are run without and with what commands put around them
        monkeypatch.setattr(place, "run_lane", lanes)
    monkeypatch.setattr(device_claims, "parts_of", lambda device: [])  # they use none, and wait for none
    monkeypatch.setattr(
        "os.fsync", lambda descriptor: None
    )  # what a power cut would leave is tested elsewhere
    return lanes
