"""A public log of one day, asked properly: the figures known of it, and a verdict for every candidate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verispec.errors import OptionError
from verispec.lab.analysis.log_report import LogReport, report_log
from verispec.lab.analysis.noise_figures import identical_batches
from verispec.lab.decision import DecisionPlan, Verdict
from verispec.lab.imports.b70_csv import read_b70_csv
from verispec.lab.imports.imported_log import ImportedLog, read_log
from verispec.lab.noise_bank import PUBLISHED, read_bank, write_banks

LOG = Path(__file__).parent / "data" / "b70_lanes.csv"


@pytest.fixture(scope="module")
def log() -> ImportedLog:
    return read_b70_csv(LOG)


@pytest.fixture(scope="module")
def report(log: ImportedLog) -> LogReport:
    return report_log(log, DecisionPlan(), [100, 98.34])


@pytest.mark.parametrize(
    ("metric", "mean", "within", "variation", "lanes"),
    [
        ("median", 96.45, 1.97, 2.05, 60),
        ("mean", 96.70, 1.44, 1.49, 56),
        ("p10", 87.16, 2.08, 2.39, 60),
        ("full", 91.13, 1.06, 1.16, 56),
    ],
)
def test_identical_lanes_vary_as_known(
    report: LogReport, metric: str, mean: float, within: float, variation: float, lanes: int
) -> None:
    noise = report.noise[metric]
    assert round(noise.mean, 2) == mean
    assert round(noise.within, 2) == within
    assert round(100 * noise.variation, 2) == variation
    assert noise.lanes == lanes


def test_the_fifteen_batches_do_not_differ(log: ImportedLog, report: LogReport) -> None:
    assert len(identical_batches(log, "512")) == 15
    assert round(report.noise["median"].f, 2) == 1.47
    assert round(report.noise["median"].p, 2) == 0.16


def test_a_record_is_an_ordinary_best_of_four(report: LogReport) -> None:
    hundred, record = report.luck
    assert hundred.reached == 13
    assert round(100 * hundred.one_lane, 1) == 4.5
    assert round(100 * record.one_lane) == 19
    assert record.best_of_four > 0.5


def test_controls_ran_mostly_on_one_device(report: LogReport) -> None:
    assert report.controls.total == 62
    assert report.controls.by_device["gpu0"] == 40
    assert report.controls.p_value < 1e-9


def test_devices_have_a_pace_of_their_own(report: LogReport) -> None:
    """gpu0, where the controls ran, is among the faster ones: by itself not proof, and enough to fool a comparison."""
    offsets = report.devices.offsets
    assert sum(offsets.values()) == pytest.approx(0, abs=1e-9)
    assert offsets["gpu0"] - offsets["gpu3"] == pytest.approx(1.48, abs=0.01)
    assert 0.05 < report.devices.p < 0.3


def test_comparisons_show_losses_and_no_gain(report: LogReport) -> None:
    compared = report.comparisons
    assert len(compared.entries) == 101
    assert len(compared.losses) == 14
    assert all(one.z < -3.4 for one in compared.losses)
    assert compared.gains == []
    assert round(max(one.z for one in compared.entries), 1) == 2.2


def test_lanes_per_arm_for_a_fixed_size(report: LogReport) -> None:
    assert report.lanes_per_arm == {0.01: 66, 0.02: 17, 0.03: 8, 0.05: 3}


def test_every_candidate_has_a_verdict_and_none_is_an_improvement(report: LogReport) -> None:
    verdicts = [one.decision.verdict for one in report.verdicts.entries]
    assert set(verdicts) == {Verdict.REGRESSION, Verdict.CANNOT_TELL, Verdict.INVALID}
    assert verdicts.count(Verdict.REGRESSION) == report.verdicts.rejected == 12
    assert report.verdicts.searched == 93


def test_what_lost_is_called_a_regression_or_nearly(report: LogReport) -> None:
    """Each of the 14 lanes that lost belongs to a regression, or to a candidate that two more lanes would decide."""
    judged = {(one.experiment, one.arm, one.stage): one.decision for one in report.verdicts.entries}
    for loss in report.comparisons.losses:
        decision = judged[loss.lane.experiment, loss.lane.arm, loss.lane.stage]
        assert decision.verdict is Verdict.REGRESSION or decision.lanes_needed == 2


def test_the_best_looking_candidate_is_shrunken_to_nearly_nothing(report: LogReport) -> None:
    judged = [one.decision for one in report.verdicts.entries if one.decision.effect is not None]
    best = max(judged, key=lambda decision: decision.effect or 0)
    assert best.effect is not None
    assert best.shrunken is not None
    assert best.effect > 0.06
    assert best.shrunken < 0.01
    assert best.verdict is Verdict.CANNOT_TELL


def test_lanes_without_a_control_and_wrong_binaries_are_invalid_by_name(report: LogReport) -> None:
    reasons = {
        one.decision.reasons for one in report.verdicts.entries if one.decision.verdict is Verdict.INVALID
    }
    assert ("wrong binary",) in reasons
    assert ("no control ran beside it",) in reasons
    assert ("environment differs from what was meant",) in reasons


def test_every_row_is_read_and_written_back_whole(log: ImportedLog, tmp_path: Path) -> None:
    assert len(log.lanes) == 298
    assert len({lane.lane for lane in log.lanes}) == 298
    kept = tmp_path / "log.json"
    kept.write_text(json.dumps(log.as_dict()))
    assert read_log(kept) == log


def test_the_published_bank_is_this_log_s(report: LogReport, tmp_path: Path) -> None:
    file = tmp_path / "bank.json"
    write_banks(report.banks(), file)
    for stage in ("128", "512"):
        for metric in ("median", "full"):
            published, own = read_bank(PUBLISHED, stage, metric), read_bank(file, stage, metric)
            assert published.batches == own.batches
            assert published.effects == pytest.approx(own.effects, abs=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "found none named experiment"),
        ("", "found none named"),
        (LOG.read_text().replace("93.7177", "fast", 1), "row 2, column median_1_100.*'fast'"),
        (LOG.read_text().replace("93.7177", "-1", 1), "row 2"),
        (LOG.read_text().replace("93.7177", "inf", 1), "row 2"),
        (LOG.read_text().replace(",114,,0,", ",114,,", 1), "row 2"),
        (LOG.read_text().replace(",114,,0,", ",114,,x,", 1), "row 2, column gpu"),
    ],
)
def test_a_file_that_is_not_the_log_is_refused_by_row_and_column(
    tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "log.csv"
    file.write_text(content)
    with pytest.raises(OptionError, match=message):
        read_b70_csv(file)
