"""Where a server counts accepted tokens and no passes, passes are inferred: marked in the rows, and always said."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from lab_experiments import run, small_experiment
from lab_lanes import PROFILE, measure, small_suite, small_target
from lab_simulated import SimulatedLanes, simulate
from verispec.cli import main
from verispec.cli.lab.experiment_text import print_lane
from verispec.lab.client.rows import read_counts
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.summary import INFERRED, lane_summary
from verispec.lab.report.page import report_page
from verispec.lab.targets.source import Source
from verispec.lab.verification import verify


def test_passes_that_a_server_counts_are_not_inferred() -> None:
    row = {"usage": {"completion_tokens": 128}, "timings": {"accepted": 64, "passes": 70}}
    sources = {name: Source.parse(f"timings:{name}") for name in ("accepted", "passes")}
    assert read_counts(row, sources, {}, {}) == ({"accepted": 64, "passes": 70}, False)
    row["timings"].pop("passes")
    assert read_counts(row, sources, {}, {}) == ({"accepted": 64, "passes": 64}, True)
    assert "passes_inferred" not in lane_summary([])


def test_inferred_passes_are_said_of_a_lane_and_of_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = {**PROFILE, "counts": {"accepted": "timings:accepted", "pass_seconds": "timings:pass_seconds"}}
    record = measure(tmp_path, small_target("--rows", "2", profile=profile), small_suite(1))
    (row,) = Ledger(tmp_path).rows(record)
    assert (row["counts"]["passes"], row["passes_inferred"]) == (64, True)
    print_lane(record)
    assert INFERRED in capsys.readouterr().out
    assert main(["lab", "compare", record["lane"], record["lane"], "--lab", str(tmp_path)]) == 0
    assert INFERRED in capsys.readouterr().out
    assert main(["lab", "audit", record["lane"], "--lab", str(tmp_path)]) == 0
    assert f"drafts, passes and causes: {INFERRED}" in capsys.readouterr().out
    assert main(["lab", "audit", record["lane"], "--lab", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passes_inferred"] is True
    assert main(["lab", "export", "csv", "--lab", str(tmp_path)]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert line["passes_inferred"] == "True"
    assert verify(Ledger(tmp_path)).holds


def test_a_report_says_that_passes_are_inferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = SimulatedLanes._row

    def inferred(lanes: SimulatedLanes, *request: Any) -> dict[str, Any]:
        return {**own(lanes, *request), "passes_inferred": True}

    monkeypatch.setattr(SimulatedLanes, "_row", inferred)
    simulate(monkeypatch, {"control": 100.0, "fast": 160.0})
    run(tmp_path, small_experiment({"fast": ("--unroll", "2")}, stages={"screen": 0, "repeat": 0}))
    assert INFERRED in report_page(Ledger(tmp_path))
