"""A small ledger for tests of pages: simulated experiments, real lanes, hostile names, something unfinished."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab_experiments import run, small_experiment
from lab_lanes import lane_request, measure, small_suite, small_target
from lab_simulated import simulate
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.ledger.ledger import Ledger

EVIL = '<img src="//evil.example/x" onerror="document.title=1"><script>document.title=2</script>&amp;'
EVIL_ARM = "</td><b>bold</b>\u202e{{ 7*7 }}"
STAGES = {"smoke_prompts": 2, "screen": 1, "screen_cap": 104, "confirmation": 6, "repeat": 0, "kept": 2}


@dataclass(frozen=True)
class SmallLedger:
    """``experiment`` is the record of one with two candidates: "faster" is, ``EVIL_ARM`` is not. One of its lanes,
    ``refused``, is invalid. ``first`` and ``second`` are real lanes of different options, ``cached`` an invalid one."""

    home: Path
    experiment: dict[str, Any]
    unfinished: str
    interrupted: str
    first: dict[str, Any]
    second: dict[str, Any]
    cached: dict[str, Any]

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home)

    def lanes(self, stage: str) -> list[dict[str, Any]]:
        """Of the experiment."""
        number = self.experiment["experiment"]
        lanes = [one for _, one in self.ledger.records("lane") if one["experiment"] == number]
        return [one for one in lanes if one["stage"] == stage]

    @property
    def refused(self) -> dict[str, Any]:
        (lane,) = [one for one in self.lanes("confirmation") if not one["valid"]]
        return lane


def small_ledger(home: Path) -> SmallLedger:
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch, {CONTROL: 100.0, "faster": 125.0, EVIL_ARM: 100.5}, spoil=_spoil)
        candidates = {"faster": ("--rows", "2"), EVIL_ARM: ("--unroll", "6")}
        whole = small_experiment(
            candidates, name=EVIL, intent=f"why {EVIL}", suite=small_suite(4), stages=STAGES
        )
        record = run(home, whole)
        ledger = Ledger(home)
        begun = {**small_experiment({"late": ()}, name="cut off").record(), "began": time.time()}
        ledger.add({"kind": "experiment-begun", "experiment": "0123456789", **begun})
        request = lane_request(small_target(), experiment="0123456789", arm="late")
        ledger.add({"kind": "lane-begun", **request.place(), **request.plan(), "began": time.time()})
        return SmallLedger(
            home=home,
            experiment=record,
            unfinished="0123456789",
            interrupted=request.lane,
            first=measure(home, small_target(), small_suite(2, 2), cap=104),
            second=measure(home, small_target("--rows", "2"), small_suite(2, 2), cap=104, arm="wide"),
            cached=measure(home, small_target("--fault", "cached"), small_suite(2, 2), cap=104, arm="cached"),
        )


def _spoil(record: dict[str, Any], number: int) -> None:
    """One lane of the control's confirmation turns out to be another program."""
    if number == 6:
        assert (record["stage"], record["arm"]) == ("confirmation", CONTROL)
        record["identity_mismatches"] = [f"binary: expected /opt/new, found {EVIL}"]
