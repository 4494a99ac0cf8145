"""``lab import``, ``lab analyse``, ``lab plan`` and ``lab simulate`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verispec.cli import main

LOG = Path(__file__).parent / "data" / "b70_lanes.csv"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERISPEC_LAB", str(tmp_path / "lab"))
    return tmp_path / "lab"


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["lab", *arguments]) == 0
    return capsys.readouterr().out


def test_import_then_analyse_then_plan(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported = json.loads(output(capsys, "import", "b70-csv", str(LOG), "--json"))
    assert (imported["lanes"], imported["valid"], imported["controls"]) == (298, 293, 62)
    assert Path(imported["file"]).parent == home / "imports"
    bank = tmp_path / "bank.json"
    report = json.loads(output(capsys, "analyse", "--json", "--bank", str(bank)))
    assert report["comparisons"]["losses"] == 14
    assert report["verdicts"]["regression"] == 12
    assert "cannot tell" in {one["verdict"] for one in report["candidates"]}
    outlook = json.loads(
        output(capsys, "plan", "--bank", str(bank), "--lanes", "4,8", "--effects", "5", "--json")
    )
    assert outlook["lane_deviation_percent"] == 2.068
    assert outlook["needed"][0]["noise_unknown_lanes"] > outlook["needed"][0]["bank_noise_lanes"]


def test_people_see_the_noise_the_confounding_and_the_verdicts(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output(capsys, "import", "b70-csv", str(LOG))
    text = output(capsys, "analyse")
    for said in (
        "median  15       60     96.45  1.97             2.05%  1.47  0.16",
        "1% 66, 2% 17, 3% 8, 5% 3",
        "P(lane >= 100) = 4.5%",
        "40 of 62 controls ran on gpu0",
        "101 comparisons with a control beside them: 14 losses and 0 gains",
        "81 cannot tell, 12 regression, 80 invalid",
        "invalid: 3 for: wrong binary",
    ):
        assert said in text


def test_a_plan_needs_no_bank_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "plan", "--lanes", "8", "--effects", "5")
    assert "one lane varies by 2.07% (76 identical lanes)" in text
    assert "lanes per arm at most" in text


def test_a_study_keeps_its_file_and_a_broken_promise_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hundred experiments are too few to bound every share; what counts is that the status says so."""
    file = tmp_path / "study.json"
    arguments = [
        "lab",
        "simulate",
        "--experiments",
        "100",
        "--searches",
        "100",
        "--output",
        str(file),
        "--json",
    ]
    status = main(arguments)
    report = json.loads(capsys.readouterr().out)
    assert status == (0 if all(promise["kept"] for promise in report["promises"]) else 1)
    assert json.loads(file.read_text())["cells"] == report["cells"]

    for cell in report["cells"].values():
        for what in ("false_improvement", "promoted", "improvement_on_screen_corrected"):
            if what in cell["result"]:
                cell["result"][what]["upper_95"] = 0.059
    file.write_text(json.dumps(report))
    assert main(arguments[:-1]) == 0
    assert "NO" not in capsys.readouterr().out
    report["cells"]["no effect/median/unknown/normal"]["result"]["false_improvement"]["upper_95"] = 0.061
    file.write_text(json.dumps(report))
    assert main(arguments[:-1]) == 1
    assert "NO" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("analyse",), "none imported yet"),
        (("analyse", str(LOG)), f"found a CSV file: `verispec lab import b70-csv {LOG}` makes one of it"),
        (("analyse", "no.json"), "expected a log that `verispec lab import` wrote"),
        (("analyse", "--metric", "speed"), "--metric"),
        (("plan", "--lanes", "0"), "--lanes"),
        (("plan", "--effects", "-1"), "--effects"),
        (("plan", "--stage", "64"), "stage 64"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(["lab", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
