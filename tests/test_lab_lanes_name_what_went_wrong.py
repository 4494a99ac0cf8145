"""A lane counts only if every rule holds; each thing that can go wrong has a name, and the ledger stays whole."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab_lanes import broken_rules, lane_request, measure, small_suite, small_target
from verispec.bench.suites import Suite, SuitePrompt
from verispec.cli import main
from verispec.lab.gate.rules import RULES, failures
from verispec.lab.lane.run import run_lane
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import DiskFullError
from verispec.lab.verification import verify


def test_a_sound_lane_is_valid_and_says_everything(tmp_path: Path) -> None:
    target = small_target("--rows", "2", "--unroll", "4", "--draft", "3", notes="mine")
    record = measure(tmp_path, target, device="cpu:0")
    assert broken_rules(record) == {}
    assert record["valid"]
    assert {one["name"] for one in record["gate"]} == set(RULES)
    assert len(record["rows"]) == 3
    identity = record["identity"]
    assert len(identity["binary"]["sha256"]) == len(identity["libraries_sha256"]) == 64
    assert any("libc" in path for path in identity["binary"]["libraries"])
    assert identity["options"]["info"]["options"]["unroll"] == 4
    assert identity["host"]["cores"]["logical"] == os.cpu_count()
    assert len(identity["load_at_start"]) == 3
    assert identity["affinity"] == [0]
    assert {one["knob"]: one["state"] for one in record["activation"]} == {
        "--rows": "read", "--unroll": "read", "--draft": "read",
    }  # fmt: skip
    assert record["summary"]["passes"]["passes"] == 3 * 64
    assert verify(Ledger(tmp_path)).holds


@pytest.mark.parametrize(
    ("arguments", "rule", "fault"),
    [
        (("--fault", "dies"), "no-fault", "server-died"),
        (("--fault", "dies-at-start"), "no-fault", "server-crashed-at-start"),
        (("--fault", "hangs"), "no-fault", "server-silent"),
        (("--fault", "wrong-canaries"), "canaries-pass", "json-object 0 of 1"),
        (("--fault", "used"), "fresh-server", "lab:generated_total"),
    ],
)
def test_a_lane_that_went_wrong_is_invalid_by_name(
    tmp_path: Path, arguments: tuple[str, ...], rule: str, fault: str
) -> None:
    record = measure(
        tmp_path, small_target(*arguments, silence_seconds=1.0 if "hangs" in arguments else 10.0)
    )
    assert not record["valid"]
    assert fault in broken_rules(record)[rule]
    assert verify(Ledger(tmp_path)).holds


def test_a_wrong_canary_is_the_first_reason_and_says_what_was_expected_and_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = measure(tmp_path, small_target("--fault", "wrong-canaries", "--draft", "2"))
    assert {"prompts-done", "knobs-read", "canaries-pass"} <= set(broken_rules(record))  # the others follow
    first = failures(record["gate"])[0]
    assert first.startswith('canaries-pass: wrong answers: json-object 0 of 1 (expected \'{"name": "Ada", ')
    assert "found '7')" in first
    assert main(["lab", "show", record["lane"], "--lab", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.index("INVALID  canaries-pass") < shown.index("INVALID  prompts-done")
    assert "canary arithmetic: 0 of 1 answers right\n" in shown
    assert "expected (last-number):\n    5\n  found:\n    7\n" in shown


def test_what_was_never_asked_is_no_reason_of_its_own(tmp_path: Path) -> None:
    record = measure(tmp_path, small_target(declared={"version": "9"}))
    reasons = [reason.partition(":")[0] for reason in failures(record["gate"])]
    assert reasons[0] == "identity-as-declared"
    assert {"canaries-pass", "prompts-done"} < set(reasons)


def test_a_fault_ends_the_lane_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    record = measure(tmp_path, small_target("--fault", "garbage", "--at", "1"))
    assert len(record["rows"]) == 2
    first, second = Ledger(tmp_path).rows(record)
    assert first["fault"] is None
    assert second["fault"]["name"] == "stream-garbage"
    assert broken_rules(record)["prompts-done"] == "not done: p1, p2"
    assert Ledger(tmp_path).logs.get_bytes(record["log"], ".log") == b""


def test_prompts_with_one_text_are_invalid(tmp_path: Path) -> None:
    prompts = tuple(SuitePrompt(name, "a class", "The same text.") for name in ("one", "two"))
    record = measure(tmp_path, small_target(), Suite("twice", 1, 128, prompts))
    assert broken_rules(record) == {"prompts-unique": "the same text: one, two"}


def test_nothing_of_the_server_is_left(tmp_path: Path) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    script = tmp_path / "wrapper"  # it leaves a helper behind in a session of its own, whose parent has ended
    script.write_text(f'#!/bin/sh\n(setsid sleep 61 &)\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    target = small_target(binary=str(script), declared={"binary": sys.executable})
    record = run_lane(Ledger(tmp_path / "lab"), lane_request(target))[1]
    assert record["valid"], broken_rules(record)
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "61"]]


LAB = """
import sys, time
from pathlib import Path
from lab_lanes import small_target
from verispec.lab.launch.server import ServerProcess
with ServerProcess(small_target(), "cpu", Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    time.sleep(60)
"""


def test_a_server_ends_with_a_lab_that_is_killed(tmp_path: Path) -> None:
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", LAB, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=paths) as lab:
        assert lab.stdout is not None
        server = psutil.Process(int(lab.stdout.readline()))
        lab.kill()
    assert psutil.wait_procs([server], timeout=10)[1] == []


class FullDisk:
    """Lets so many writes through; then the disk is full, but for room that was given back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reserve: Path, writes: int) -> None:
        self.left = writes
        self.had_reserve = False
        self.reserve = reserve
        self.sync = os.fsync
        monkeypatch.setattr("os.fsync", self)

    def __call__(self, descriptor: int) -> None:
        self.had_reserve = self.had_reserve or self.reserve.exists()
        given_back = self.had_reserve and not self.reserve.exists()
        if self.left == 0 and not given_back:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left = max(self.left - 1, 0)
        self.sync(descriptor)


@pytest.mark.parametrize("writes", [8, 9, 11, 12])
def test_a_full_disk_is_said_and_leaves_the_ledger_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    FullDisk(monkeypatch, tmp_path / "reserve", writes)
    with pytest.raises(DiskFullError):
        measure(tmp_path, small_target(), small_suite(2))
    monkeypatch.undo()
    ledger = Ledger(tmp_path)
    (record,) = [record for _, record in ledger.records("lane")]
    assert "disk-full" in broken_rules(record)["no-fault"]
    assert verify(ledger).holds
    assert not list(tmp_path.rglob(".part-*"))


def test_an_interrupted_lane_is_written_down(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    ledger = Ledger(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_lane(ledger, lane_request(small_target()), interrupt)
    (record,) = [record for _, record in ledger.records("lane")]
    assert "interrupted" in broken_rules(record)["no-fault"]
    assert len(record["rows"]) == 1


def test_every_rule_says_what_it_wants() -> None:
    rules: Any = RULES
    assert all(rule.__doc__ for rule in rules.values())
