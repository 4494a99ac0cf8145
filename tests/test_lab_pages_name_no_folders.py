"""What leaves the machine names files, not the folders that they lie in; the ledger keeps both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab_experiments import run, small_experiment
from lab_simulated import simulate
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.export.markdown import experiment_page
from verispec.lab.folders import without_folders
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.report.page import report_page
from verispec.lab.report.text import shown, told_apart

HOME = "/home/someone/lab"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("expected /opt/a/server, found /usr/bin/python3.11", "expected server, found python3.11"),
        ('{"model": "/home/a b/my weights/x.gguf"}', '{"model": "x.gguf"}'),
        ("--model=/m/x.gguf -c 2048", "--model=x.gguf -c 2048"),
        ('["/opt/run", "-m", "~/m/x.gguf"]', '["run", "-m", "x.gguf"]'),
        ("'/opt/run -m /m/x.gguf'", "'run -m x.gguf'"),
        ("PATH=/home/me/bin:/usr/bin:/bin", "PATH=3 folders (SHA-256 DIGEST)"),
        ("libraries./opt/a/libx.so and /opt/a/", "libraries.libx.so and a"),
    ],
)
def test_an_absolute_path_is_cut_to_its_last_name(text: str, told: str) -> None:
    assert re.sub("(?<=SHA-256 )[0-9a-f]{12}", "DIGEST", without_folders(text)) == told
    assert without_folders(told) == told


@pytest.mark.parametrize(
    "text",
    ["100 tokens/s and/or n/a", "http://127.0.0.1:80/health/x", "//evil.example/x/y",
     'src="//evil.example/x"', 'GET "/v1/models/x"', "src/verispec/lab",
     "./a/b and ../c/d", "POST /v1/chat/completions", "1 / 2 / 3", "</td></tr>", "~ 3"],
)  # fmt: skip
def test_what_is_no_path_of_a_machine_stays(text: str) -> None:
    assert without_folders(text) == text


def test_two_files_of_one_name_are_still_told_apart() -> None:
    def cut(text: str) -> str:
        return without_folders(shown(text))

    assert told_apart(["/opt/a/run", "/opt/b/run"], cut) == ["run", "run (in another folder)"]
    assert told_apart(["/opt/a/run", None], cut) == ["run", "–"]
    assert told_apart(["/opt/a/run", "/opt/b/run"], shown) == ["/opt/a/run", "/opt/b/run"]


def test_a_report_and_a_page_name_the_file_and_the_ledger_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(record: dict[str, object], number: int) -> None:
        record["identity_mismatches"] = [f"binary: expected {HOME}/server, found {HOME}/other"]

    simulate(monkeypatch, {CONTROL: 100.0, "tried": 100.0}, spoil=spoil)
    record = run(tmp_path, small_experiment({"tried": ("--weights", f"{HOME}/x.gguf")}))
    ledger = Ledger(tmp_path)
    for page in (report_page(ledger), experiment_page(ledger, record["experiment"])):
        assert "binary: expected server, found other" in page
        assert HOME not in page
        assert re.search(r"someone", page) is None
    assert any(HOME in str(lane["identity_mismatches"]) for _, lane in ledger.records("lane"))
