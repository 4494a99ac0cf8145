"""Quality is compared task by task; rates keep their names; slow prompts, phases, company, the host are told."""

from __future__ import annotations

import itertools
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_lanes import small_canaries, small_suite, small_target
from verispec.cli import main
from verispec.errors import OptionError
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.lane.telemetry import Telemetry, host_channels, sampled
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.quality.company import measure_company
from verispec.lab.quality.figures import RateFigure
from verispec.lab.quality.matrix import QualityPlan, run_quality
from verispec.lab.quality.phases import phase_profile
from verispec.lab.quality.slow_tail import audit_tail
from verispec.lab.suites.tasks import Task, suite_of
from verispec.lab.verification import verify

SUMS = suite_of(
    "sums",
    [
        Task(
            f"sum-{one:02}",
            "even" if one % 2 else "odd",
            "number",
            f"What is 40 + {one}?",
            str(40 + one),
            (),
            one < 4,
        )
        for one in range(24)
    ],
)


def arms(**candidates: tuple[str, ...]) -> Experiment:
    targets = {CONTROL: small_target(name=CONTROL)}
    targets |= {name: small_target(*given, name=name) for name, given in candidates.items()}
    return Experiment("a matrix", targets, small_suite(), small_canaries())


def test_a_candidate_that_is_wrong_more_often_is_worse_by_the_paired_test(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    record = run_quality(ledger, arms(wrong=("--mistakes", "2")), QualityPlan(SUMS, passes=2, cap=16))
    assert record["invalid"] == []
    assert record["verdict"] == "wrong: worse (strict, lenient score)"
    strict = record["compared"]["wrong"]["strict"]
    assert (strict["both"], strict["only_control"], strict["only_candidate"], strict["neither"]) == (
        12,
        12,
        0,
        0,
    )
    assert strict["p_value"] == pytest.approx(2 * 0.5**12)
    assert strict["lost_tasks"] == [f"sum-{one:02}" for one in range(0, 24, 2)]
    assert record["compared"]["wrong"]["answers"]["same"] == 24  # 12 tasks, asked twice
    lanes = [one for _, one in ledger.records("lane") if one["stage"] == "matrix"]
    assert all(one["valid"] for one in lanes)
    asked = [[ledger.get(row)["prompt"] for row in one["rows"]] for one in lanes]
    assert [order[0] for order in asked] == ["sum-00", "sum-00", "sum-12", "sum-12"]
    assert all(sorted(order) == sorted(asked[0]) for order in asked)
    assert [one["arm"] for one in lanes] == [CONTROL, "wrong", "wrong", CONTROL]
    assert verify(ledger).holds
    ledger.add({**record, "verdict": "wrong: identical output"})
    (finding,) = verify(ledger).findings
    assert finding.what == "verdict is not what the raw rows give"


def test_passes_are_dealt_over_the_devices_and_a_pass_stays_on_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every arm of a pass meets the same device, so that none can pass for a difference of the answers."""
    experiment = replace(arms(wrong=("--mistakes", "2")), devices=("cpu", "cpu:0"))
    record = run_quality(Ledger(tmp_path), experiment, QualityPlan(SUMS, 3, 16, calibrate=False))
    assert record["verdict"] == "wrong: worse (strict, lenient score)"
    lanes = {
        arm: [Ledger(tmp_path).get(digest) for digest in digests]
        for arm, digests in record["lanes"]["matrix"].items()
    }
    for arm in (CONTROL, "wrong"):
        assert [lane["device"] for lane in lanes[arm]] == ["cpu", "cpu:0", "cpu"]
        begun = [Ledger(tmp_path).get(lane["rows"][0])["prompt"] for lane in lanes[arm]]
        assert begun == ["sum-00", "sum-08", "sum-16"]
    assert record["devices"] == ["cpu", "cpu:0"]
    assert verify(Ledger(tmp_path)).holds
    assert main(["lab", "log", "--lab", str(tmp_path)]) == 0
    assert f"{record['experiment']}  quality" in capsys.readouterr().out
    assert main(["lab", "show", record["experiment"], "--lab", str(tmp_path)]) == 0
    assert "wrong: worse (strict, lenient score)" in capsys.readouterr().out


def test_form_and_content_are_scored_apart_and_equal_output_is_seen(tmp_path: Path) -> None:
    candidates = {"loose": ("--style", "chatty"), "same": ("--unroll", "3")}
    record = run_quality(Ledger(tmp_path), arms(**candidates), QualityPlan(SUMS, 1, 16, calibrate=False))
    assert record["compared"]["loose"]["verdict"] == "worse (strict score)"
    assert record["compared"]["loose"]["lenient"]["both"] == 24
    assert record["compared"]["loose"]["answers"]["same"] == 24
    assert record["compared"]["same"]["verdict"] == "identical output"
    assert record["compared"]["same"]["strict"]["p_value"] == 1.0
    assert record["compared"]["same"]["strict"]["lost"]["upper_95"] == pytest.approx(
        1 - 0.05 ** (1 / 24), abs=1e-4
    )
    assert record["arms"]["loose"]["passes"][0]["by_category"]["odd"]["lenient"] == 12
    (rate,) = record["arms"][CONTROL]["rates"]
    assert (rate["profile"], rate["basis"]) == ("representative", "request-wide")


def test_a_calibration_whose_answers_are_cut_ends_the_matrix(tmp_path: Path) -> None:
    record = run_quality(Ledger(tmp_path), arms(same=("--unroll", "3")), QualityPlan(SUMS, cap=2))
    assert record["verdict"] == "invalid"
    assert "control: 4 of 4 answers were cut at 2 tokens: a larger cap is needed" in record["invalid"]
    assert record["arms"] == {}


def test_rates_of_different_things_are_not_divided() -> None:
    steady = RateFigure("representative", "steady", "a" * 64, 50.0)
    assert steady.over(RateFigure("representative", "steady", "a" * 64, 40.0)) == 1.25
    for other in (
        ("peak", "steady", "a"),
        ("representative", "request-wide", "a"),
        ("representative", "steady", "b"),
    ):
        with pytest.raises(OptionError, match="expected two of one"):
            steady.over(RateFigure(other[0], other[1], other[2] * 64, 40.0))
    with pytest.raises(OptionError, match="a peak is a steady rate"):
        RateFigure("peak", "request-wide", "a", 1.0)


def row(prompt: str, pauses: list[float], per_pass: int = 1, **timings: float) -> dict[str, Any]:
    """An answer of ``per_pass`` tokens after each pause (seconds)."""
    times = [0.1]
    for pause in pauses:
        times.append(times[-1] + pause)
    events = [[int(1e9 * when), per_pass, None, "x", ""] for when in times]
    return {
        "prompt": prompt,
        "class": "c",
        "fault": None,
        "events": events,
        "counts": {"passes": float(len(times))},
        "timings": timings,
        "began": {"monotonic": 0},
        "ended": {"monotonic": int(1e9 * (times[-1] + 0.1))},
    }


def test_the_slow_tail_says_what_makes_each_prompt_slow() -> None:
    usual = [row(f"usual {one}", [0.01] * 100, 2) for one in range(5)]
    slow = [
        row("few drafts", [0.01] * 100, 1),
        row("long passes", [0.025] * 100, 2),
        row("stalls", [0.01] * 98 + [0.8, 0.8], 2),
    ]
    found = {one.prompt: one for one in audit_tail([usual + slow], 0.5)}
    assert [one.prompt for one in audit_tail([usual + slow], 0.3)] == ["stalls", "long passes", "few drafts"]
    assert found["few drafts"].cause.startswith("drafts")
    assert found["few drafts"].from_drafts == pytest.approx(100, abs=1)
    assert found["few drafts"].behind_percent == pytest.approx(50, abs=1)
    assert found["long passes"].cause.startswith("passes")
    assert found["stalls"].cause.startswith("stalls")
    assert (found["stalls"].stalls, found["stalls"].longest_pause) == (2, pytest.approx(0.8))
    assert found["usual 0"].cause.startswith("not slow")


def test_what_no_phase_claims_is_the_hosts() -> None:
    from verispec.lab.targets.loading import load_profile

    told = {"draft_seconds": 0.2, "pass_seconds": 0.5, "sampling_seconds": 0.05, "prompt_seconds": 0.1}
    one = row("a", [0.01] * 80, **told, queued_seconds=0.0)
    phases = phase_profile([one, one], load_profile("verispec"))
    assert phases is not None
    assert phases["shares"]["sampling"] == pytest.approx(0.05)
    assert phases["shares"]["host"] == pytest.approx(0.15)
    assert sum(phases["shares"].values()) == pytest.approx(1)
    other = row("b", [0.01] * 80, predicted_ms=800.0, prompt_ms=100.0)
    llama = phase_profile([other], load_profile("llama-server"))
    assert llama is not None
    assert llama["seconds"] == {"prompt": 0.1, "decode": 0.8, "host": pytest.approx(0.1)}
    assert phase_profile([one], load_profile("vllm")) is None
    untold = phase_profile([one, row("c", [0.01])], load_profile("verispec"))
    assert untold is None  # an answer without phases leaves none that can be summed


def test_company_costs_each_answer_and_leaves_what_is_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    target = small_target("--rows", "8", "--pace", "20")
    record = measure_company(ledger, target, "cpu", small_suite(4), 64, [4])
    solo, crowd = record["widths"]
    assert (solo["width"], crowd["width"]) == (1, 4)
    assert solo["valid"]
    assert crowd["valid"], crowd["faults"]
    assert crowd["together"] > 1.3 * solo["together"]
    assert crowd["output_of_solo"] == "token-exact"
    assert len(crowd["identity"]["binary"]["sha256"]) == 64
    broken = measure_company(ledger, small_target("--fault", "dies-at-start"), "cpu", small_suite(1), 64, [])
    assert "server-crashed-at-start" in broken["widths"][0]["faults"][0]
    assert b"no such kernel" in ledger.logs.get_bytes(broken["widths"][0]["log"], ".log")
    assert verify(ledger).holds


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_company_is_looked_at_as_a_lane_is(tmp_path: Path) -> None:
    probe = {"knob": "--p-min", "counters": ["drafted"]}
    ledger = Ledger(tmp_path)
    target = small_target(
        "--fault",
        "drips",
        "--p-min",
        "0.5",
        answer_seconds=0.3,
        activation=[probe],
    )
    (alone,) = measure_company(ledger, target, "cpu", small_suite(3), 64, [])["widths"]
    assert any("server-too-slow" in one for one in alone["faults"])
    assert any(one.startswith("knobs-read: --p-min") for one in alone["faults"])
    cached = small_target("--fault", "cached")
    (alone,) = measure_company(ledger, cached, "cpu", small_suite(1), 64, [])["widths"]
    assert alone["faults"] == ["nothing-cached: cached tokens: p0 9"]
    assert verify(ledger).holds


def test_telemetry_is_what_the_host_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n")
    write(tmp_path / "sys/class/thermal/thermal_zone0/type", "package\n")
    write(tmp_path / "sys/class/thermal/thermal_zone0/temp", "61500\n")
    write(tmp_path / "sys/class/hwmon/hwmon1/name", "amdgpu\n")
    write(tmp_path / "sys/class/hwmon/hwmon1/power1_average", "30000000\n")
    write(tmp_path / "sys/class/hwmon/hwmon1/temp1_input", "not a number\n")
    energy = tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj"
    write(energy, "1000000\n")
    write(energy.with_name("name"), "package-0\n")
    tool = tmp_path / "bin" / "nvidia-smi"
    write(
        tool,
        "#!/bin/sh\nnow=$(date +'%Y/%m/%d %H:%M:%S.%3N')\necho \"$now, 0, [N/A], 2619, 301.5, 44, 97\"\nsleep 0.2\n"
        "now=$(date +'%Y/%m/%d %H:%M:%S.%3N')\necho \"$now, 0, 1410, 2619, 299.5, 45, 98\"\nexec sleep 9\n",
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    with sampled(tmp_path / "sys", 0.02) as telemetry:
        for step in range(12):
            energy.write_text(f"{1000000 + 2000000 * step}\n")
            time.sleep(0.04)
    record = telemetry.record()
    channels = record["channels"]
    assert channels["clock cpu0"]["mean"] == 2400
    assert channels["temperature package"]["max"] == 61.5
    assert channels["power amdgpu power1"]["min"] == 30
    assert 5 < channels["power package-0"]["mean"] < 60  # 2 J every 40 ms, on a busy machine less often
    assert channels["gpu 0 power.draw"]["mean"] == 300.5
    ((clock_when, clock),) = channels["gpu 0 clocks.sm"]["samples"]
    (first, _), (second, _) = channels["gpu 0 power.draw"]["samples"]
    assert clock == 1410
    assert clock_when == second >= first + 0.2  # a value that was missing moves no other in time
    assert record["not_shown"] == []
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host_channels(tmp_path / "nothing") == []
    with sampled(tmp_path / "nothing", 0.02) as nothing:
        pass
    assert nothing.record() == {"channels": {}, "not_shown": ["clock", "power", "temperature"]}


def test_a_long_lane_has_no_more_samples_than_a_short_one() -> None:
    telemetry = Telemetry()
    for second in range(50_000):
        telemetry.add("clock", "MHz", float(second), 9000.0 if second == 33_333 else float(second % 7))
    channel = telemetry.record()["channels"]["clock"]
    samples = channel["samples"]
    assert 300 <= len(samples) <= 600
    assert (samples[0][0], channel["max"], channel["min"]) == (0, 9000, 0)  # also of what is not kept
    assert channel["mean"] == pytest.approx(3.18, abs=0.01)
    assert len({later[0] - earlier[0] for earlier, later in itertools.pairwise(samples)}) == 1


PROFILES = """
canaries = "{folder}/canaries.toml"
device = "cpu"
[target]
profile = "verispec"
binary = "{binary}"
model = "{model}"
arguments = ["--spec-mode", "suffix", "--threads", "2", "--ctx", "512"]
[representative]
suite = "{folder}/one.toml"
cap = 104
"""


def test_a_real_server_has_a_representative_profile(
    tmp_path: Path, smollm2_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlib import resources

    canaries = (resources.files("verispec.lab.suites") / "data" / "canaries-small.toml").read_text()
    write(tmp_path / "canaries.toml", canaries.replace("repeats = 8", "repeats = 1"))
    text = "Write the numbers from one to sixty in words, in order, with commas between them."
    prompt = f'prompts = [{{ id = "a", class = "count", text = "{text}" }}]'
    write(tmp_path / "one.toml", f'name = "one"\nversion = 1\nmax_tokens = 104\n{prompt}\n')
    binary = Path(sys.executable).with_name("verispec")
    write(tmp_path / "p.toml", PROFILES.format(folder=tmp_path, binary=binary, model=smollm2_path))
    lab = ["--lab", str(tmp_path / "lab")]
    assert main(["lab", "profile", "run", str(tmp_path / "p.toml"), *lab]) == 0, capsys.readouterr().out
    ((_, record),) = Ledger(tmp_path / "lab").records("profile")
    assert [(rate["profile"], rate["basis"]) for rate in record["rates"]] == [
        ("representative", "steady"),
        ("representative", "request-wide"),
    ]
    shares = record["phases"]["shares"]
    assert set(shares) == {"queued", "prompt", "draft", "target", "sampling", "host"}
    assert shares["target"] > 0.3
    assert record["phases"]["overlap_seconds"] == 0
    assert record["telemetry"][0]["lane"]
    assert verify(Ledger(tmp_path / "lab")).holds
    assert main(["lab", "profile", "list", *lab]) == 0
    assert "peak" not in capsys.readouterr().out
    (lane,) = [one["lane"] for _, one in Ledger(tmp_path / "lab").records("lane")]
    assert main(["lab", "audit", lane, *lab]) == 0
    assert "phases of" in capsys.readouterr().out
