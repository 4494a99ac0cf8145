"""A dry run starts nothing: it says what would run, what of it is not there, and what the plan could ever find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verispec.cli import main

TARGET = """
[target]
profile = "{profile}"
binary = "{binary}"
model = "{model}"
{more}

[control]
arguments = ["-c", "2048"]

[[candidate]]
name = "tried"
arguments = ["-c", "4096", "--api-key", "abcdefghi"]
environment = {{ GGML_X = "1" }}
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def dry(ledger: Path, head: str = "", effects: str = "9", **target: str) -> tuple[int, Path]:
    """The exit status of a dry run of a file with these settings."""
    values = {"profile": "verispec", "binary": "python3", "model": "m", "more": "", **target}
    file = ledger.parent / "experiment.toml"
    file.write_text(head + TARGET.format(**values))
    return main(["lab", "run", str(file), "--dry-run", "--effects", effects, "--lab", str(ledger)]), file


def test_commands_stages_and_lanes_are_said_and_nothing_is_written(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = dry(
        ledger, 'devices = ["cpu:0", "cpu"]\n[stages]\nscreen = 1\nconfirmation = 2\n', effects="8,9"
    )
    said = capsys.readouterr().out
    assert status == 0
    assert "control: python3 serve m --host HOST --port 0 -c 2048\n" in said
    assert "abcdefghi" not in said
    assert "    GGML_X=1\n" in said
    lanes = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.split()[1:2]}
    assert lanes["smoke"] == ["2", "2", "128"]
    assert lanes["screen"] == ["4", "12", "128"]
    assert lanes["confirmation"] == ["8", "12", "512"]
    assert lanes["repeat"] == ["8", "12", "512"]
    assert "confirmation: 4 lanes an arm find effects from" in said
    assert "screen: 2 lanes an arm decide nothing, the best-looking go on: a verdict needs at least 4" in said
    assert "a published log" in said
    assert "  8% needs " in said
    assert "; 9% needs " in said
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("stages", "decides"),
    [
        ("screen = 0\nconfirmation = 1", False),
        ("screen = 0\nconfirmation = 3", False),
        ("screen = 0\nconfirmation = 4", True),
        ("screen = 4\nconfirmation = 1", True),
        ("screen = 0\nconfirmation = 0", False),
    ],
)
def test_a_plan_that_can_never_decide_says_so(
    ledger: Path, capsys: pytest.CaptureFixture[str], stages: str, decides: bool
) -> None:
    dry(ledger, f"[stages]\n{stages}\n")
    said = capsys.readouterr().out
    assert ("this plan can never decide anything" in said) is not decides
    if "confirmation = 1" in stages:
        assert "confirmation: 1 lane an arm decide nothing: a verdict needs at least 4" in said


@pytest.mark.parametrize(
    ("head", "target", "complaint"),
    [
        ("", {"binary": "no-such-server"}, "every arm: binary: expected a program, found none called no-such-server"),
        ("", {"model": "./no/model"}, "every arm: model: expected a file or a folder, found none at ./no/model"),
        ("", {"profile": "llama-server", "model": "m"}, "every arm: model: expected a file or a folder, whose"),
        ("", {"profile": "vllm", "model": "/"}, "every arm: template: expected a file or a folder, whose"),
        ("", {"more": 'draft = "d.gguf"'}, "every arm: draft: expected a file or a folder, whose"),
        ("", {"more": 'source = "/"'}, "every arm: source: expected a git checkout, found none at /"),
        ("", {"more": "affinity = [9999]"}, "every arm: affinity: expected processors of"),
        ('devices = ["cpu:9999"]\n', {}, "devices: expected processors of"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named(
    ledger: Path, capsys: pytest.CaptureFixture[str], head: str, target: dict[str, str], complaint: str
) -> None:
    status, _ = dry(ledger, f"{head}[stages]\nscreen = 0\nconfirmation = 1\n", **target)
    assert status == 1
    assert f"MISSING  {complaint}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        ([], "expected an accelerator that its driver's tool shows, found none for '1'"),
        ([{"index": "0", "uuid": "GPU-a"}], "expected one of 0, GPU-a, found '1'"),
        ([{"index": "1", "uuid": "GPU-a"}], None),
        ([{"tool": "rocm-smi", "report": "card"}], None),
    ],
)
def test_an_accelerator_must_be_among_those_that_are_shown(
    ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: list[dict[str, Any]],
    missing: str | None,
) -> None:
    monkeypatch.setattr("verispec.lab.experiment.needs.gpus", lambda: found)
    head = 'devices = ["1"]\n[stages]\nscreen = 0\nconfirmation = 1\n'
    status, _ = dry(ledger, head, profile="vllm", model=str(ledger.parent), more='template = "/"')
    assert status == (0 if missing is None else 1)
    assert (missing or "") in capsys.readouterr().out


def test_a_suite_or_canary_that_there_is_not_ends_it_by_name(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dry(ledger, 'suite = "no-suite"\n')[0] == 2
    assert "found 'no-suite'" in capsys.readouterr().err
    assert dry(ledger, 'canaries = "no.toml"\n')[0] == 2
    assert "found none at no.toml" in capsys.readouterr().err


def test_what_no_outcome_could_promote_is_said(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dry(ledger, 'suite = "screen-4"\n[stages]\nrepeat = 1\nconfirmation = 1\nconfirmation_cap = 128\n')
    said = capsys.readouterr().out
    assert "cannot be promoted: repeat: expected 2 fresh servers of the candidate or more, found 1" in said
    assert "cannot be promoted: confirmation_cap: expected 512, found 128" in said
    assert "cannot be promoted: suite: expected 12 prompts of 5 classes or more, found 4 of 4" in said


def test_all_of_it_is_there_as_json(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, file = dry(ledger, "[stages]\nscreen = 0\nconfirmation = 1\n", binary="no-such-server")
    capsys.readouterr()
    assert main(["lab", "run", str(file), "--dry-run", "--json", "--lab", str(ledger)]) == 1
    outlook = json.loads(capsys.readouterr().out)["outlook"]
    assert outlook["deciding"] == [
        {"stage": "confirmation", "lanes_per_arm": 1, "searched": 1, "fewest_lanes": 4, "decides": False}
    ]
    assert [one["stage"] for one in outlook["stages"]] == ["smoke", "confirmation", "repeat"]
    assert outlook["missing"] == ["every arm: binary: expected a program, found none called no-such-server"]
