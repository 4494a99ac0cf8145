"""What the lab's commands say of a ledger: lists, pages, comparisons, answers, verification, exports."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lab_lanes import PROFILE
from lab_simulated import simulate
from verispec.cli import main
from verispec.cli.lab.compare import _change
from verispec.errors import UnsupportedError
from verispec.lab.export import mlflow_runs, tables
from verispec.lab.ledger.ledger import Ledger

EXPERIMENT = """
name = "wider rows"
intent = "Do eight rows pay?"
suite = "realistic-12"
canaries = "canaries-small"

[stages]
screen = 0
confirmation = 6
repeat = 1

[target]
profile = "verispec"
binary = "python3"
model = "smollm2-135m"

[control]
arguments = ["--spec-mode", "off"]

[[candidate]]
name = "eight"
arguments = ["--spec-mode", "suffix", "--spec-draft-max", "8"]
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an experiment's description, and a ledger in which it was run."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "experiment.toml").write_text(EXPERIMENT)
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch, {"control": 100.0, "eight": 160.0}, noise=0.004)
        assert main(["lab", "run", str(folder / "experiment.toml"), "--lab", str(folder / "ledger")]) == 0
    return folder


@pytest.fixture
def lab(written: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ledger, told by the environment."""
    monkeypatch.setenv("VERISPEC_LAB", str(written / "ledger"))
    return written / "ledger"


def lanes_of(lab: Path, arm: str) -> list[dict[str, Any]]:
    return [
        one for _, one in Ledger(lab).records("lane") if one["arm"] == arm and one["stage"] == "confirmation"
    ]


def test_an_experiment_is_run_listed_shown_and_verified(
    lab: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["lab", "run", str(written / "experiment.toml"), "--dry-run"]) == 0
    assert "confirmation: 6 lanes an arm find" in capsys.readouterr().out
    (number,) = [one["experiment"] for _, one in Ledger(lab).records("experiment")]
    assert main(["lab", "log"]) == 0
    assert f"{number}" in (listed := capsys.readouterr().out)
    assert "wider rows" in listed
    assert main(["lab", "log", "--lanes"]) == 0
    assert capsys.readouterr().out.count(" eight ") == len(
        [1 for _, one in Ledger(lab).records("lane") if one["arm"] == "eight"]
    )
    assert main(["lab", "show", number]) == 0
    assert "eight after confirmation" in capsys.readouterr().out
    lane = lanes_of(lab, "eight")[0]["lane"]
    assert main(["lab", "show", lane]) == 0
    shown = capsys.readouterr().out
    assert "rate 1-100" in shown
    assert "(by 100: 1% high)" in shown
    assert main(["lab", "verify"]) == 0
    assert capsys.readouterr().out.startswith("holds")


def test_a_changed_row_is_found(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(lab, tmp_path / "copy")
    path = Ledger(copy).objects.path(lanes_of(copy, "eight")[0]["rows"][0])
    path.write_bytes(path.read_bytes().replace(b"100000000", b"100000001"))
    capsys.readouterr()
    assert main(["lab", "verify", "--lab", str(copy)]) == 1
    assert "altered" in capsys.readouterr().out


def test_what_was_tried_is_answered(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["lab", "ask", "spec-draft-max 8"]) == 0
    assert "eight in wider rows" in capsys.readouterr().out
    assert main(["lab", "ask", "spec-draft-max 9"]) == 1
    assert "not tried yet" in capsys.readouterr().out


def test_two_lanes_are_compared_in_identity_output_and_factors(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    (number,) = [one["experiment"] for _, one in Ledger(lab).records("experiment")]
    assert (
        main(["lab", "compare", f"{number}:control:confirmation", f"{number}:eight:confirmation", "--json"])
        == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert result["outputs"]["exactness"] == "token-exact"
    assert result["metrics"]["rate_1_100"]["change_percent"] == pytest.approx(60, abs=3)
    speed, tokens, passes = result["factors"]
    assert tokens["change_percent"] == pytest.approx(0, abs=0.01)
    assert passes["change_percent"] == pytest.approx(speed["change_percent"], rel=0.01)
    first, second = lanes_of(lab, "control")[0]["lane"], lanes_of(lab, "eight")[0]["lane"]
    assert main(["lab", "compare", first, second]) == 0
    said = capsys.readouterr().out
    assert "token-exact" in said
    assert (
        f"  eight, confirmation of {number}: {second}\nagainst\n  control, confirmation of {number}: {first}\n"
        in said
    )
    assert "tokens per second: +" in said
    assert "(nothing ruled out)" in said  # of two lanes
    assert _change(["run", "-t", "2"], ["run", "-t", "2", "--spec", "on"]) == "nothing -> --spec on"
    assert _change(["-t", "2"], ["2", "-t"]) == "['-t', '2'] -> ['2', '-t']"
    assert main(["lab", "compare", f"{number}:control", f"{number}:eight"]) == 0
    said = capsys.readouterr().out
    assert "eight, confirmation" in said
    assert "smoke" not in said  # stages are never pooled
    assert main(["lab", "compare", f"{number}:control:screen", second]) == 2
    assert "expected lanes of" in (error := capsys.readouterr().err)
    assert "found those of stages: smoke, confirmation, repeat" in error
    assert main(["lab", "compare", first, "nothing"]) == 2


def test_tables_hold_every_lane_and_every_prompt(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    lanes = [one for _, one in Ledger(lab).records("lane")]
    assert main(["lab", "export", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["lane"] for line in lines] == [lane["lane"] for lane in lanes]
    assert float(lines[0]["rate_1_100_median"]) == lanes[0]["summary"]["rate_1_100"]["median"]
    assert main(["lab", "export", "csv", "--rows", "--output", str(tmp_path / "rows.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert len(rows) == sum(len(lane["rows"]) for lane in lanes)
    (number,) = {lane["experiment"] for lane in lanes}
    assert main(["lab", "export", "markdown", number]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# wider rows")
    assert "| eight | verispec |" in page


def test_exports_that_need_a_package_say_which(
    lab: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    for module in (tables, mlflow_runs):
        monkeypatch.setattr(module.importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match="pip install pyarrow"):
        tables.write_parquet([{"a": 1}], tmp_path / "x.parquet")
    with pytest.raises(UnsupportedError, match="pip install mlflow"):
        mlflow_runs.write_runs(Ledger(lab), "file:x")
    run = next(mlflow_runs.runs(Ledger(lab)))
    assert run["metrics"]["rate_1_100_median"] > 0
    assert all(isinstance(value, str) for value in run["parameters"].values())


def test_a_submission_is_checked_and_only_shown(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    lane = lanes_of(lab, "eight")[0]["lane"]
    facts = tmp_path / "facts.toml"
    facts.write_text(
        'hfId = "HuggingFaceTB/SmolLM2-135M-Instruct"\nbackend = "cpu"\nquantization = "Q4_1"\ncontextLength = 4096\n'
    )
    assert main(["lab", "export", "localmaxxing", lane, "--facts", str(facts)]) == 1
    written = capsys.readouterr()
    content = json.loads(written.out)
    assert content["outputTokens"] == 512
    assert content["batchSize"] == 1
    assert content["tokSOut"] == pytest.approx(
        lanes_of(lab, "eight")[0]["summary"]["full"]["median"], abs=0.01
    )
    assert "not ready: engineVersion" in written.err  # simulated servers have none, and no machine
    assert "not ready: hardware.cpu" in written.err
    assert "nothing was sent" in written.err
    facts.write_text(
        facts.read_text() + 'engineVersion = "1"\n[hardware]\ncpu = "a"\nramGb = 8\nos = "Linux"\n'
    )
    assert main(["lab", "export", "localmaxxing", lane, "--facts", str(facts)]) == 0
    facts.write_text("tokSOut = 900.5\n" + facts.read_text())
    assert main(["lab", "export", "localmaxxing", lane, "--facts", str(facts)]) == 2
    assert "only what a lane does not measure, found 'tokSOut'" in capsys.readouterr().err


def test_a_smoke_run_says_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = tmp_path / "small.toml"
    profile.write_text(_toml(PROFILE))
    target = tmp_path / "target.toml"
    target.write_text(f'profile = "{profile}"\nmodel = "tiny"\narguments = ["--fault", "cached"]\n')
    assert (
        main(["lab", "smoke", str(target), "--canaries", "canaries-small", "--lab", str(tmp_path / "lab")])
        == 1
    )
    assert "INVALID  nothing-cached: cached tokens" in capsys.readouterr().out


def test_arms_may_be_files_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, mode in (("alone", "off"), ("drafting", "suffix")):
        own = 'profile = "verispec"\nbinary = "python3"\nmodel = "smollm2-135m"\n'
        (tmp_path / f"{name}.toml").write_text(f'{own}arguments = ["--spec-mode", "{mode}"]\n')
    files = ["--control", str(tmp_path / "alone.toml"), "--candidate", str(tmp_path / "drafting.toml")]
    more = ["--suite", "screen-4", "--device", "cpu:0", "--device", "cpu:1", "--intent", "Why not?"]
    assert main(["lab", "run", *files, *more, "--dry-run", "--json", "--lab", str(tmp_path / "lab")]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["candidates"] == ["drafting"]
    assert plan["targets"]["control"]["arguments"] == ["--spec-mode", "off"]
    assert (plan["suite_name"], plan["devices"], plan["intent"]) == (
        "screen-4",
        ["cpu:0", "cpu:1"],
        "Why not?",
    )
    assert not (tmp_path / "lab").exists()


def test_nothing_yet_and_nonsense_are_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "lab")
    assert main(["lab", "log", "--lab", folder]) == 0
    assert "nothing has been run yet" in capsys.readouterr().out
    assert main(["lab", "show", "abc", "--lab", folder]) == 2
    assert "expected one record that begins with 'abc', found none" in capsys.readouterr().err
    assert main(["lab", "run", "--lab", folder]) == 2
    assert "expected a file" in capsys.readouterr().err


def _toml(content: dict[str, Any]) -> str:
    """Enough of TOML for the profile above: JSON values are TOML values, but for tables."""
    lines = [f"{name} = {_value(value)}" for name, value in content.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return json.dumps(value)
