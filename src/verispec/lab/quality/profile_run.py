"""A target measured under a named profile: its rates with their names, its slow prompts, its phases, its host."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.bench.suites import Suite
from verispec.errors import OptionError
from verispec.lab.experiment.measured import MeasuredLane
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.spec import read_experiment
from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner
from verispec.lab.lane.telemetry import with_telemetry
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.summary import passes_inferred
from verispec.lab.quality.figures import (
    PEAK,
    PROFILES,
    REPRESENTATIVE,
    RateFigure,
    request_wide_figure,
    steady_figure,
)
from verispec.lab.quality.phases import phase_profile
from verispec.lab.quality.slow_tail import audit_tail
from verispec.lab.settings import checked
from verispec.lab.suites.canaries import CanarySuite, load_canaries
from verispec.lab.suites.prompts import load_prompts
from verispec.lab.targets.devices import check_device
from verispec.lab.targets.loading import parse_target
from verispec.lab.targets.target import Target

Record = dict[str, Any]
SUITES = {PEAK: "copy-heavy-12", REPRESENTATIVE: "realistic-12"}
OWN = ("suite", "cap", "lanes")
SHARED = ("name", "notes", "canaries", "device", "target")


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """What one profile runs: the target with that profile's own settings, on its own prompts."""

    profile: str
    target: Target
    suite: Suite
    canaries: CanarySuite
    device: str
    cap: int
    lanes: int


def load_profile_runs(path: Path, home: Path | None = None) -> list[ProfileRun]:
    """From a TOML file: ``[target]`` and ``[peak]``, ``[representative]`` or both, each with what it adds."""
    content = read_experiment(path)
    unknown = sorted(set(content) - {*SHARED, *PROFILES})
    if unknown:
        raise OptionError(f"{path}: expected only {', '.join((*SHARED, *PROFILES))}, found {unknown[0]!r}")
    runs = [_run(content, profile, str(path), home) for profile in PROFILES if profile in content]
    if not runs:
        raise OptionError(f"{path}: expected [peak] or [representative], found neither")
    return runs


def _run(content: Mapping[str, Any], profile: str, where: str, home: Path | None) -> ProfileRun:
    table = checked(content[profile], Mapping[str, Any], f"{where}: {profile}")
    checked(content.get("target", {}), Mapping[str, Any], f"{where}: target")
    for name, kind in (("lanes", int), ("cap", int), ("suite", str)):
        checked(table.get(name, kind()), kind, f"{where}: {profile}: {name}")
    for name in ("device", "canaries", "name"):
        checked(content.get(name, ""), str, f"{where}: {name}")
    changes = {name: value for name, value in table.items() if name not in OWN}
    target = {"name": content["name"], **content.get("target", {}), **changes}
    lanes, cap = int(table.get("lanes", 1)), int(table.get("cap", 512))
    if lanes < 1 or cap < 1:
        raise OptionError(f"{where}: {profile}: expected lanes and cap of at least 1")
    parsed = parse_target(target, f"{where}: {profile}")
    device = content.get("device", "cpu")
    check_device(device, [parsed], f"{where}: device")
    return ProfileRun(
        profile=profile,
        target=parsed,
        suite=load_prompts(table.get("suite", SUITES[profile]), home),
        canaries=load_canaries(content.get("canaries", "canaries"), home),
        device=device,
        cap=cap,
        lanes=lanes,
    )


def measure_profile(
    ledger: Ledger,
    run: ProfileRun,
    observer: Observer | None = None,
    run_one_lane: LaneRunner | None = None,
) -> Record:
    """The record of one profile. A peak has steady rates alone; rates of invalid lanes are not given."""
    ledger.adopt()
    number, began = uuid.uuid4().hex[:10], time.time()
    lanes = _lanes(ledger, run, number, observer or Observer(), run_one_lane or with_telemetry())
    valid = [lane for lane in lanes if lane.valid]
    result = {
        "kind": "profile",
        "experiment": number,
        "name": run.target.name,
        "profile": run.profile,
        "target": run.target.record(),
        "suite": run.suite.identity(),
        "suite_name": run.suite.name,
        "device": run.device,
        "max_tokens": run.cap,
        "began": began,
        "ended": time.time(),
        "lanes": [lane.digest for lane in lanes],
        "valid_lanes": len(valid),
        "invalid": [f"{lane.record['lane']}: {reason}" for lane in lanes for reason in lane.reasons],
        "rates": [rate.record() for rate in profile_rates(run.profile, valid)],
        "tail": [one.as_dict() for one in audit_tail([lane.rows for lane in valid])],
        "passes_inferred": any(passes_inferred(lane.rows) for lane in valid),
        "phases": phase_profile([row for lane in valid for row in lane.rows], run.target.profile),
        "telemetry": telemetry_of(ledger, {lane.record["lane"] for lane in lanes}),
    }
    ledger.add(result)
    return result


def _lanes(
    ledger: Ledger, run: ProfileRun, number: str, observer: Observer, measure: LaneRunner
) -> list[MeasuredLane]:
    observer.stage(run.profile, run.lanes)
    lanes = []
    for order in range(run.lanes):
        request = LaneRequest(
            experiment=number,
            stage="profile",
            arm=run.profile,
            block=f"profile:{order + 1}/{run.device}",
            order=0,
            device=run.device,
            target=run.target,
            suite=run.suite,
            cap=run.cap,
            canaries=run.canaries,
            wave=order,
        )
        observer.lane(run.profile, run.device)
        digest, record = measure(
            ledger, request, lambda done, total: observer.prompts(run.profile, done, total)
        )
        observer.measured(record)
        lanes.append(MeasuredLane(digest, record, ledger.rows(record)))
    return lanes


def profile_rates(profile: str, lanes: Sequence[MeasuredLane]) -> list[RateFigure]:
    """One rate a valid lane and basis, under the profile's name."""
    rates = [steady_figure(profile, lane.record) for lane in lanes]
    if profile == REPRESENTATIVE:
        rates += [request_wide_figure(lane.record) for lane in lanes]
    return [rate for rate in rates if rate is not None]


def telemetry_of(ledger: Ledger, lanes: set[str]) -> list[Record]:
    """Of these lanes: summaries of what the host showed; the samples are in records of their own."""
    ledger.refresh_index()
    found = [ledger.get(digest) for digest in ledger.index.all("telemetry")]
    return [
        {
            "lane": one["lane"],
            "not_shown": one["not_shown"],
            "channels": {
                name: {key: value for key, value in channel.items() if key != "samples"}
                for name, channel in one["channels"].items()
            },
        }
        for one in found
        if one["lane"] in lanes
    ]
