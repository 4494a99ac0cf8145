"""Whole experiments on the small server, for tests of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab_lanes import small_canaries, small_suite, small_target
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.run import run_experiment
from verispec.lab.experiment.spec import CONTROL, Experiment, Stages
from verispec.lab.ledger.ledger import Ledger

SHORT = {
    "smoke_prompts": 1,
    "screen": 1,
    "screen_cap": 104,
    "confirmation": 3,
    "confirmation_cap": 104,
    "repeat": 1,
}


def small_experiment(
    candidates: dict[str, tuple[str, ...]], control: tuple[str, ...] = (), **more: Any
) -> Experiment:
    """``candidates`` are arguments of the small server by the arm's name; ``more`` are fields of Experiment."""
    arms = {CONTROL: small_target(*control, name=CONTROL)}
    arms |= {name: small_target(*arguments, name=name) for name, arguments in candidates.items()}
    stages = Stages(**{**SHORT, **more.pop("stages", {})})
    fields = {"name": "a test", "suite": small_suite(), "canaries": small_canaries(), "stages": stages}
    return Experiment(**{**fields, "arms": arms, **more})


def run(home: Path, experiment: Experiment, observer: Observer | None = None) -> dict[str, Any]:
    """The experiment's record."""
    return run_experiment(Ledger(home), experiment, observer)
