"""A search finds the best of a space on simulated lanes of known speed, keeps what noise cannot tell apart, resumes."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab_lanes import PROFILE, lane_request, small_suite, small_target
from lab_simulated import SimulatedLanes
from paired_lanes import lane
from verispec.cli import main
from verispec.errors import OptionError
from verispec.lab.candidates import build
from verispec.lab.candidates.source_patch import BuildRecipe, SourcePatch
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.lane import telemetry
from verispec.lab.lane.device_claims import claimed, parts_of
from verispec.lab.lane.request import LaneRequest
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.questions import ask
from verispec.lab.search.outlook import search_outlook
from verispec.lab.search.ray_lanes import measure_elsewhere, unload
from verispec.lab.search.run import run_search
from verispec.lab.search.search import Search, parse_search
from verispec.lab.search.space import parse_space
from verispec.lab.search.standings import standings
from verispec.lab.verification import verify

KNOBS: list[dict[str, Any]] = [
    {"name": "mode", "values": [False, "suffix", "head"], "arguments": ["--mode", "{value}"]},
    {
        "name": "width",
        "values": [2, 4],
        "arguments": ["--width={value}"],
        "when": {"mode": ["suffix", "head"]},
    },
    {"name": "p", "values": [0.1, 0.3], "environment": {"P_MIN": "{value}"}, "when": {"mode": "head"}},
]


class Speeds(Mapping[str, float]):
    """100 for what is not named."""

    def __init__(self, **known: float) -> None:
        self.known = {name.replace("_", " "): speed for name, speed in known.items()}

    def __getitem__(self, arm: str) -> float:
        return self.known.get(arm, 100.0)

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """That evidence outlasts a power cut is another test's promise."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


def a_search(knobs: list[dict[str, Any]] | None = None, prompts: int = 2, **more: Any) -> Search:
    content: dict[str, Any] = {
        "name": "widths",
        "intent": "Which width pays?",
        "canaries": "canaries-small",
        "target": {"profile": PROFILE, "model": "tiny"},
        "knob": knobs or KNOBS,
        "stages": {"smoke_prompts": 1, "screen_cap": 104, "confirmation": 8, "confirmation_cap": 512},
        **more,
    }
    found = parse_search(content, "here")
    suite = small_suite(prompts, 6)
    return dataclasses.replace(found, experiment=dataclasses.replace(found.experiment, suite=suite))


def widths(*values: int) -> list[dict[str, Any]]:
    return [{"name": "width", "values": list(values), "arguments": ["--width", "{value}"]}]


def test_a_space_holds_what_makes_a_difference_once() -> None:
    names = a_search().experiment.candidates
    assert names == [
        "mode=suffix width=2",
        "mode=suffix width=4",
        "mode=head width=2 p=0.1",
        "mode=head width=2 p=0.3",
        "mode=head width=4 p=0.1",
        "mode=head width=4 p=0.3",
    ]
    arms = a_search().experiment.arms
    assert arms[names[-1]].arguments == ("--mode", "head", "--width=4")
    assert dict(arms[names[-1]].environment) == {"P_MIN": "0.3"}
    assert arms[CONTROL].arguments == ()  # "mode=false" is the control, and no candidate
    off = a_search(control={"arguments": ["--mode", "off"]}).experiment.arms
    assert off[CONTROL].arguments == ("--mode", "off")
    assert off[names[0]].arguments == ("--mode", "suffix", "--width=2")  # no flag twice


def test_a_large_space_is_drawn_from_the_same_way_each_time() -> None:
    knobs = widths(*range(1, 100))
    first, again, other = (
        a_search(knobs, search={"candidates": 8, "seed": seed}).experiment.candidates for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(first) == 8


def test_the_best_is_found_and_promoted_on_lanes_that_did_not_choose_it(tmp_path: Path) -> None:
    lanes = SimulatedLanes(Speeds(**{"width=4": 130.0, "width=8": 118.0}), noise=0.005)
    ledger = Ledger(tmp_path)
    record = run_search(ledger, a_search(widths(1, 2, 4, 8), prompts=12, search={"rungs": 3}), None, lanes)
    assert record["chosen"] == ["width=4"]
    assert record["verdicts"]["width=4"]["verdict"] == "promoted", record["verdicts"]
    out = {arm: reason for rung in record["rungs"] for arm, reason in rung["given_up"].items()}
    assert set(out) == {"width=1", "width=2", "width=8"}
    assert "slower than width=4" in out["width=8"]
    confirmed = [one for one in lanes.requests if one.experiment == record["confirmation"]]
    assert {one.arm for one in confirmed} == {CONTROL, "width=4"}
    promotion = next(one for _, one in ledger.records("decision") if one["stage"] == "promotion")
    searched = {one.lane for one in lanes.requests if one.stage.startswith("rung")}
    assert searched == set(promotion["promotion"]["selected_on"])
    assert [one.arm for one in ask(ledger, "width 8")] == ["width=8"]
    assert verify(ledger).holds


def test_equals_are_not_told_apart_and_nobody_is_promoted(tmp_path: Path) -> None:
    lanes = SimulatedLanes(Speeds(), noise=0.02)
    search = a_search(widths(1, 2, 3, 4, 5), search={"first": 1, "rungs": 2})
    record = run_search(Ledger(tmp_path), search, None, lanes)
    assert len(record["alive"]) == 5  # halving by rank would have dropped two or three of them
    assert record["verdicts"][record["chosen"][0]]["verdict"] == "cannot tell"


def test_the_best_is_given_up_no_more_often_than_the_risk() -> None:
    """Three configurations of 6, 5 and 4% at 2% noise, looked at twice: the first one stays."""
    search = a_search(widths(1, 2, 3))
    giving_up = search.giving_up(search.experiment.plan)
    gains = {"width=1": 0.06, "width=2": 0.05, "width=3": 0.04}
    lost = others = 0
    for seed in range(16):
        draw = np.random.default_rng(seed)
        lanes: dict[str, list[LaneValues]] = {arm: [] for arm in (CONTROL, *gains)}
        for block in range(8):
            for arm in lanes:
                rate = np.full(1, 4.5 + gains.get(arm, 0.0) + draw.normal(0, 0.02))
                lanes[arm].append(lane(arm, str(block), rate))
            if block in (3, 7):
                arms = {arm: lanes[arm] for arm in gains}
                found = standings(lanes[CONTROL], arms, {}, search.experiment.plan, giving_up)
                out = {one.arm for one in found if one.behind}
                lost += "width=1" in out
                others += len(out - {"width=1"})
    assert lost <= 2  # of 16, at a risk of 10%
    assert others > lost


def test_a_search_that_was_interrupted_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    speeds = Speeds(**{"width=2": 140.0, "width=4": 120.0})
    search = a_search(widths(1, 2, 4), search={"rungs": 2}, stages={"screen_cap": 104, "confirmation": 0})
    whole = run_search(Ledger(tmp_path / "whole"), search, None, SimulatedLanes(speeds, noise=0.004))

    class Stops(SimulatedLanes):
        def __call__(self, ledger: Ledger, request: Any, progress: Any) -> Any:
            if len(self.requests) == 7:
                raise KeyboardInterrupt
            return super().__call__(ledger, request, progress)

    ledger = Ledger(tmp_path / "cut")
    first = Stops(speeds, noise=0.004)
    with pytest.raises(KeyboardInterrupt):
        run_search(ledger, search, None, first)
    assert search_outlook(ledger, search)["goes_on"] is not None
    later = SimulatedLanes(speeds, noise=0.004)
    record = run_search(ledger, search, None, later)
    assert record["chosen"] == whole["chosen"] == ["width=2"]
    stages = [request.stage for request in later.requests]
    assert "smoke" not in stages  # four lanes of the smoke stage were there
    assert stages.count("rung-1") == 8  # the block that was cut is measured again as a whole
    assert verify(ledger).holds
    assert search_outlook(ledger, search)["goes_on"] is None


def test_an_end_comes_before_the_lanes_run_out(tmp_path: Path) -> None:
    search = a_search(
        widths(1, 2, 3), search={"rungs": 3, "lanes": 20}, stages={"screen_cap": 104, "confirmation": 0}
    )
    record = run_search(Ledger(tmp_path), search, None, SimulatedLanes(Speeds(), noise=0.02))
    assert [rung["lanes"] for rung in record["rungs"]] == [8]
    assert record["why_ended"] == "the next rung needs 16 lanes, 12 are left"


def test_a_configuration_that_crashes_goes_in_the_smoke_stage(tmp_path: Path) -> None:
    def spoil(record: dict[str, Any], number: int) -> None:
        if record["arm"] == "width=2":
            record["faults"].append({"name": "server-crashed-at-start", "detail": "no such width"})

    lanes = SimulatedLanes(Speeds(), spoil=spoil)
    search = a_search(widths(1, 2), search={"rungs": 1}, stages={"screen_cap": 104, "confirmation": 0})
    run_search(Ledger(tmp_path), search, None, lanes)
    assert [one.arm for one in lanes.requests if one.stage == "rung-1"].count("width=2") == 0
    assert "no such width" in str(ask(Ledger(tmp_path), "width 2")[0].reasons)


def test_the_plan_is_told_before_a_lane_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "widths.toml"
    file.write_text(
        'intent = "x"\n[target]\nprofile = "verispec"\nbinary = "python3"\nmodel = "m"\n'
        "[search]\nrungs = 3\nfirst = 4\n"
        '[[knob]]\nname = "width"\nvalues = [1, 2, 4]\narguments = ["--spec-width", "{value}"]\n'
    )
    assert main(["lab", "tune", str(file), "--dry-run", "--lab", str(tmp_path / "lab")]) == 0
    said = capsys.readouterr().out
    assert "3 configurations" in said
    assert "8 fresh lanes an arm" in said
    outlook = search_outlook(Ledger(tmp_path / "lab"), a_search(widths(1, 2, 4), search={"first": 4}))
    gaps = [rung["gap_percent"] for rung in outlook["rungs"]]
    assert gaps == sorted(gaps, reverse=True)
    assert (
        2 < gaps[-1] < 5
    )  # of lanes that vary by 2.07%, 28 pairs tell configurations apart that differ by so much
    assert not (tmp_path / "lab" / "journal").exists()


@pytest.mark.parametrize(
    ("knob", "complaint"),
    [
        ({"name": "w", "values": []}, "different values"),
        ({"name": "w", "values": [1, 1], "arguments": ["{value}"]}, "different values"),
        ({"name": "w", "values": [1]}, "found none"),
        ({"name": "w", "values": [1, 2], "arguments": ["--w"]}, "{value}"),
        ({"name": "w", "values": [1], "arguments": ["{value}"], "when": {"v": [1]}}, "when"),
        ({"name": "w", "values": [1], "argument": ["{value}"]}, "'argument'"),
    ],
)
def test_a_knob_that_means_nothing_is_refused(knob: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_space([knob], "here")


def test_a_device_is_held_by_one_lane_at_a_time(tmp_path: Path) -> None:
    assert parts_of("cpu:3,1") == ["cpu-1", "cpu-3"]
    assert len(parts_of("cpu")) == os.cpu_count()
    inside: list[int] = []
    waited: list[str] = []

    def hold() -> None:
        with claimed("cpu:0", tmp_path, waited.append):
            inside.append(1)
            time.sleep(0.02)
            assert inside == [1]
            inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    with claimed("cpu", tmp_path):
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        assert inside == []
    for thread in threads:
        thread.join()
    assert waited == ["cpu:0"] * 4
    told: list[str] = []
    with claimed("cpu:0", tmp_path), claimed("cpu:1", tmp_path, told.append):
        assert told == []  # other processors are another device


def held(device: str) -> bool:
    """Whether somebody has claimed all of a device."""
    folder = Path(tempfile.gettempdir()) / f"verispec-devices-{os.getuid()}"
    for part in parts_of(device):
        with (folder / part).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return False
    return True


def test_whatever_uses_a_device_claims_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of ``lab smoke`` and those of a cluster, and builds, which want every processor."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    claimed_by: dict[str, bool] = {}

    def lane(ledger: Ledger, request: LaneRequest, progress: object) -> tuple[str, dict[str, Any]]:
        claimed_by[request.experiment] = held(request.device)
        record = {"kind": "lane", "lane": request.lane, "log": None, "valid": True, "gate": []}
        return ledger.add(record), record

    monkeypatch.setattr(telemetry, "run_lane", lane)
    measure_elsewhere(lane_request(small_target(), experiment="ray", device="cpu:0"), {})
    target = tmp_path / "target.toml"
    target.write_text('profile = "verispec"\nmodel = "tiny"\n')
    assert main(["lab", "smoke", str(target), "--json", "--lab", str(tmp_path / "lab")]) == 0
    assert claimed_by == {"ray": True, "smoke": True}
    built: list[bool] = []
    monkeypatch.setattr(build, "clean_copy", lambda repository, base, folder: folder.mkdir() or "0" * 40)
    monkeypatch.setattr(build, "_run", lambda *_: built.append(held("cpu")) or 0)
    recipe = BuildRecipe(commands=(("make",),))
    build.build(SourcePatch(tmp_path, "main", "", recipe=recipe), tmp_path / "copy", patched=False)
    assert built == [True]
    assert not held("cpu")


def test_a_lane_measured_elsewhere_comes_home_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_JOB_ID", "7")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    request = lane_request(small_target("--rows", "2", "--pace", "4"))
    ledger = Ledger(tmp_path)
    digest, record = unload(ledger, measure_elsewhere(request, {"OMP_NUM_THREADS": None}))
    assert record["valid"], record["gate"]
    assert record["lane"] == request.lane
    assert ledger.get(digest) == record
    seen = record["identity"]["environment"]
    assert not [name for name in seen if name.startswith("RAY_") or name == "OMP_NUM_THREADS"]
    assert verify(ledger).holds


ON_RAY = """
import sys
import tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from lab_lanes import lane_request, small_target
from verispec.lab.lane.request import LaneRequest
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.search.ray_lanes import lanes_on_ray
with lanes_on_ray(None, ["cpu:0"]) as run_one_lane:
    request = lane_request(small_target("--rows", "2", "--pace", "4"), device="cpu:0")
    run_one_lane(Ledger(Path(sys.argv[1])), request, lambda done, total: None)
"""


def test_lanes_run_on_a_ray_cluster_each_on_its_device(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ON_RAY, str(tmp_path), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ((_, record),) = Ledger(tmp_path).records("lane")
    assert [rule for rule in record["gate"] if not rule["holds"]] == []
    assert record["identity"]["affinity"] == [0]
    assert not [name for name in record["identity"]["environment"] if name.startswith(("RAY_", "OMP_"))]
    assert verify(Ledger(tmp_path)).holds
