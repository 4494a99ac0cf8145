"""Lanes on the small server of ``lab_server.py``, for tests of the lab."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from verispec.bench.suites import Suite, SuitePrompt
from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import run_lane
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.suites.canaries import CanarySuite, load_canaries
from verispec.lab.targets.loading import parse_target
from verispec.lab.targets.target import Target

SERVER = Path(__file__).parent / "lab_server.py"
PROFILE: dict[str, Any] = {
    "engine": "small",
    "binary": sys.executable,
    "command": ["{binary}", "-IS", str(SERVER), "--model", "{model}", "--host", "{host}", "--port", "{port}"],
    "metrics": "/metrics",
    "fresh": ["lab:generated_total"],
    "version": "options:info.version",
    "weights": "options:info.weights",
    "template": "options:info.template",
    "model": "options:info.model",
    "options": {"info": "/info"},
    "counts": {
        "passes": "timings:passes",
        "drafted": "timings:drafted",
        "accepted": "timings:accepted",
        "pass_seconds": "timings:pass_seconds",
    },
    "reuse": [["--reuse-history"]],
    "activation": [
        {"knob": "--fault", "waived": "how the test misbehaves"},
        {"knob": "--at", "waived": "when the test misbehaves"},
        {"knob": "--seed", "differs": True},
        {"knob": "--pace", "waived": "how slow the test is"},
        {"knob": "--reuse-history", "waived": "named as reuse"},
        {"knob": "--draft", "counters": ["drafted", "lab:drafted_total"]},
        {"knob": "--*", "source": "options:info.options.{name}"},
    ],
    "ready": {"path": "/health", "seconds": 20},
}


def small_target(*arguments: str, name: str = "small", **more: Any) -> Target:
    """The small server with ``arguments``; ``more`` are further keys of a target."""
    content = {"name": name, "profile": PROFILE, "model": "tiny", "arguments": list(arguments), **more}
    return parse_target({"silence_seconds": 10.0, **content}, "test")


def small_suite(prompts: int = 3, classes: int = 3, **more: Any) -> Suite:
    """Prompts that only the small server understands."""
    entries = [
        SuitePrompt(f"p{one}", f"class {one % classes}", f"Write text {one}.") for one in range(prompts)
    ]
    return Suite(**{"name": "small", "version": 1, "max_tokens": 128, "prompts": tuple(entries), **more})


def small_canaries(repeats: int = 1) -> CanarySuite:
    return dataclasses.replace(load_canaries("canaries-small"), repeats=repeats)


def lane_request(target: Target, suite: Suite | None = None, **more: Any) -> LaneRequest:
    place = {
        "experiment": "e",
        "stage": "screen",
        "arm": "control",
        "block": "1/cpu",
        "order": 0,
        "device": "cpu",
    }
    fields = {"suite": suite or small_suite(), "cap": 128, "canaries": small_canaries(), **place, **more}
    return LaneRequest(target=target, **fields)


def measure(home: Path, target: Target, suite: Suite | None = None, **more: Any) -> dict[str, Any]:
    """One lane's record."""
    return run_lane(Ledger(home), lane_request(target, suite, **more))[1]


def broken_rules(record: dict[str, Any]) -> dict[str, str]:
    """The rules that do not hold, and what was found."""
    return {one["name"]: one["detail"] for one in record["gate"] if not one["holds"]}
