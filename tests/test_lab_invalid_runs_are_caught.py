"""Runs that once passed a strict gate and measured something else: each is void, under a name, on a real server too.

A wrong default binary; a misspelt environment variable; flags of a record that were left out; a knob that nobody reads.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_experiments import small_experiment
from lab_lanes import SERVER, broken_rules, lane_request, measure, small_suite, small_target
from verispec._native import resolve_isa
from verispec.bench.suites import Suite, SuitePrompt
from verispec.errors import OptionError
from verispec.lab.experiment.needs import check_inherited
from verispec.lab.experiment.run import run_experiment
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.lane.run import run_lane
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.targets.loading import parse_target
from verispec.lab.targets.source import Source
from verispec.lab.targets.target import Target


def wrapper(folder: Path, name: str, command: str) -> str:
    """A program of one's own that becomes ``command``."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nexec {command}\n")
    path.chmod(0o755)
    return str(path)


def test_a_wrapper_that_starts_another_binary_is_caught(tmp_path: Path) -> None:
    script = wrapper(tmp_path, "new-build", f'{sys.executable} "$@"')
    broken = broken_rules(measure(tmp_path, small_target(binary=script)))
    assert broken["identity-as-declared"].startswith(f"binary: expected {script}")


def test_a_default_that_is_not_the_checkout_that_was_meant_is_caught(tmp_path: Path) -> None:
    """The binary was left to its default: what it was compared with is the default itself."""
    checkout = tmp_path / "patched"
    checkout.mkdir()
    broken = broken_rules(measure(tmp_path / "lab", small_target(source=str(checkout))))
    assert f"binary: expected one built in {checkout}" in broken["identity-as-declared"]
    assert broken["identity-complete"] == "missing: source"  # nor is it a checkout


def test_a_wrapper_may_be_declared(tmp_path: Path) -> None:
    script = wrapper(tmp_path, "starter", f'{sys.executable} "$@"')
    assert measure(tmp_path, small_target(binary=script, declared={"binary": sys.executable}))["valid"]


def test_a_misspelt_variable_is_caught_and_the_right_one_is_not(tmp_path: Path) -> None:
    probe = {"knob": "LAB_TEST_KERNEL", "source": "options:info.options.kernel"}
    wrong = measure(tmp_path, small_target(environment={"LAB_TEST_KERNAL": "fast"}))
    assert "LAB_TEST_KERNAL fast is unread" in broken_rules(wrong)["knobs-read"]
    assert wrong["rows"] == []  # nothing is timed that cannot count
    right = measure(tmp_path, small_target(environment={"LAB_TEST_KERNEL": "fast"}, activation=[probe]))
    assert right["valid"]
    assert right["identity"]["environment"]["LAB_TEST_KERNEL"] == "fast"


def test_a_variable_that_every_arm_would_inherit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its control would run with it, too: whatever the lanes said, they would compare it with itself."""
    arms = {
        CONTROL: small_target(name=CONTROL),
        "tried": small_target(name="tried", environment={"LAB_TEST_KERNEL": "fast"}),
    }
    experiment = replace(small_experiment({"other": ()}), arms=arms)
    monkeypatch.setenv("LAB_TEST_KERNEL", "other")
    check_inherited(experiment)
    monkeypatch.setenv("LAB_TEST_KERNEL", "fast")
    with pytest.raises(
        OptionError, match=r"LAB_TEST_KERNEL to be set for tried, .* which control would inherit"
    ):
        run_experiment(Ledger(tmp_path), experiment)
    assert not list(Ledger(tmp_path).records())


def test_flags_that_were_left_out_are_caught(tmp_path: Path) -> None:
    command = f'{sys.executable} -IS {SERVER} --model tiny --host 127.0.0.1 --port "$PORT"'
    script = tmp_path / "record"
    script.write_text(f'#!/bin/sh\nwhile [ "$1" != --port ]; do shift; done\nPORT=$2\nexec {command}\n')
    script.chmod(0o755)
    target = small_target("--unroll", "4", binary=str(script), declared={"binary": sys.executable})
    broken = broken_rules(measure(tmp_path, target))
    assert "arguments: expected '--unroll' as declared" in broken["identity-as-declared"]


def test_options_that_do_not_come_back_as_declared_are_caught(tmp_path: Path) -> None:
    target = small_target(declared={"options": {"info.options.unroll": 4}, "version": "2.0"})
    broken = broken_rules(measure(tmp_path, target))["identity-as-declared"]
    assert "expected info.options.unroll = 4, found 0" in broken
    assert "version: expected 2.0, found 1.0" in broken


@pytest.mark.parametrize(
    ("arguments", "probe", "complaint"),
    [
        (
            ("--p-min", "0.3"),
            {"knob": "--p-min", "counters": ["drafted"]},
            "the counter drafted did not move",
        ),
        (
            ("--unroll", "8"),
            {"knob": "--unroll", "source": "options:info.options.rows"},
            "expected '8', 1 came back",
        ),
        (("--seed", "1"), {"knob": "--seed", "source": "options:info.seed"}, "nothing came back"),
    ],
)
def test_a_knob_that_nobody_reads_is_caught(
    tmp_path: Path, arguments: tuple[str, ...], probe: dict[str, Any], complaint: str
) -> None:
    record = measure(tmp_path, small_target(*arguments, activation=[probe]), small_suite(1))
    assert complaint in broken_rules(record)["knobs-read"]


def test_a_missing_fact_is_not_probably_fine(tmp_path: Path) -> None:
    profile = {"version": "options:info.nothing", "weights": "file:model"}
    target = small_target()
    changed = {name: Source.parse(text) for name, text in profile.items()}
    record = measure(tmp_path, replace(target, profile=replace(target.profile, **changed)))
    assert broken_rules(record)["identity-complete"] == "missing: weights, version"


def real_target(*arguments: str, **more: Any) -> Target:
    binary = Path(sys.executable).parent / "verispec"
    program = str(binary) if binary.is_file() else shutil.which("verispec")
    content = {"name": "real", "profile": "verispec", "model": "smollm2-135m", "binary": program}
    return parse_target({**content, "arguments": ["--ctx", "1024", *arguments], **more}, "test")


ONE = Suite(
    "one", 1, 104, (SuitePrompt("story", "writing", "Write a long story about a lighthouse and its keeper."),)
)


@pytest.mark.usefixtures("smollm2_path")
class TestOnARealServer:
    """``verispec serve`` with a real model; what is caught before anything is timed takes no longer than its start."""

    def lane(self, home: Path, target: Target) -> dict[str, Any]:
        return run_lane(Ledger(home), lane_request(target, ONE, cap=104))[1]

    def test_a_knob_that_nobody_reads_and_nothing_else_is_wrong(self, tmp_path: Path) -> None:
        variables = {"VERISPEC_ISA": resolve_isa(), "OMP_NUM_THREADS": "1"}
        # a fixed width: an adaptive one may find on a busy machine that nothing pays
        speculating = ("--spec-mode", "suffix", "--spec-draft-policy", "fixed")
        record = self.lane(tmp_path, real_target(*speculating, environment=variables))
        (rule,) = broken_rules(record).items()
        assert rule[0] == "knobs-read"
        assert "OMP_NUM_THREADS 1 is unread" in rule[1]
        read = {one["knob"] for one in record["activation"] if one["state"] == "read"}
        assert read == {"--ctx", "--spec-mode", "--spec-draft-policy", "VERISPEC_ISA"}
        assert len(record["identity"]["weights"]["target"]) == 64
        assert record["summary"]["tokens_per_pass"]["mean"] > 1
        (row,) = Ledger(tmp_path).rows(record)
        assert row["token_source"] == "ids"

    def test_another_binary_left_out_flags_and_a_misspelt_variable(self, tmp_path: Path) -> None:
        program = real_target().binary
        script = wrapper(
            tmp_path, "record", f'{program} serve smollm2-135m --host 127.0.0.1 --port "$6" --ctx 1024'
        )
        variables = {"VERISPEC_IAS": "avx2"}
        target = real_target("--spec-mode", "off", binary=script, environment=variables)
        broken = broken_rules(self.lane(tmp_path, target))
        assert f"binary: expected {script}" in broken["identity-as-declared"]
        assert "arguments: expected '--spec-mode' as declared" in broken["identity-as-declared"]
        assert "VERISPEC_IAS avx2 is unread" in broken["knobs-read"]
