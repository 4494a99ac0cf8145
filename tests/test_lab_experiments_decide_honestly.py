"""An experiment goes from smoke to promotion and writes down why; noise, crashes and inert knobs get no further."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_experiments import run, small_experiment
from lab_lanes import small_suite, small_target
from lab_simulated import simulate
from verispec.cli.lab.outlook_text import print_outlook
from verispec.errors import OptionError
from verispec.lab.experiment.bank import own_bank
from verispec.lab.experiment.outlook import experiment_outlook
from verispec.lab.experiment.spec import CONTROL, parse_experiment
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.planning import plan_experiment
from verispec.lab.questions import ask
from verispec.lab.verification import verify

WHOLE: dict[str, Any] = {
    "suite": small_suite(12, 6),
    "stages": {"screen": 1, "screen_cap": 128, "confirmation": 12, "confirmation_cap": 512, "repeat": 2},
}


def decisions(home: Path) -> list[tuple[str, str, str]]:
    return [(one["stage"], one["arm"], one["verdict"]) for _, one in Ledger(home).records("decision")]


def test_a_real_gain_is_promoted_on_lanes_that_did_not_select_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = simulate(monkeypatch, {CONTROL: 100.0, "faster": 125.0})
    record = run(tmp_path, small_experiment({"faster": ()}, **WHOLE))
    verdict = record["verdicts"]["faster"]
    assert verdict["verdict"] == "promoted", verdict["reasons"]
    assert 15 < verdict["effect_percent"] < 35
    assert verdict["interval_percent"][0] > 1
    stages = [request.stage for request in lanes.requests]
    assert list(dict.fromkeys(stages)) == ["smoke", "screen", "confirmation", "repeat"]
    assert stages.count("repeat") == 4
    assert stages.count("confirmation") < 24  # it stopped when it knew
    assert {request.cap for request in lanes.requests if request.stage == "confirmation"} == {512}
    (confirmed,) = [one for _, one in Ledger(tmp_path).records("decision") if one["stage"] == "promotion"]
    used = {
        Ledger(tmp_path).get(one)["stage"]
        for one in confirmed["control_lanes"] + confirmed["candidate_lanes"]
    }
    assert used == {"confirmation"}
    result = verify(Ledger(tmp_path))
    assert result.holds, result.findings


def test_arms_take_turns_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = simulate(monkeypatch, {CONTROL: 100.0, "same": 100.0}, noise=0.05)
    run(tmp_path, small_experiment({"same": ()}, stages={"confirmation": 4, "repeat": 0}))
    order = [request.arm for request in lanes.requests if request.stage == "confirmation"]
    assert order == [CONTROL, "same", "same", CONTROL, "same", CONTROL, CONTROL, "same"]


def test_no_difference_is_not_an_improvement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch, {CONTROL: 100.0, "same": 100.0}, noise=0.002)
    record = run(tmp_path, small_experiment({"same": ()}, stages={"screen": 4, "confirmation": 12}))
    assert record["verdicts"]["same"]["verdict"] in ("no difference", "cannot tell")
    assert not [one for one in decisions(tmp_path) if one[0] in ("repeat", "promotion")]


def test_a_loss_is_found_in_the_screen_and_goes_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = simulate(monkeypatch, {CONTROL: 100.0, "slower": 50.0})
    record = run(tmp_path, small_experiment({"slower": ()}, stages={"screen": 6}))
    assert record["verdicts"]["slower"]["verdict"] == "regression"
    assert {request.stage for request in lanes.requests} == {"smoke", "screen"}


def test_the_best_of_many_goes_on_and_fresh_lanes_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {CONTROL: 100.0, "a": 101.0, "b": 130.0, "c": 99.0}
    lanes = simulate(monkeypatch, speeds, noise=0.004)
    record = run(tmp_path, small_experiment({"a": (), "b": (), "c": ()}, **WHOLE))
    assert {request.arm for request in lanes.requests if request.stage == "confirmation"} == {CONTROL, "b"}
    assert record["verdicts"]["b"]["verdict"] == "promoted"
    screened = [one for _, one in Ledger(tmp_path).records("decision") if one["stage"] == "screen"]
    assert {one["plan"]["searched"] for one in screened} == {3}


def test_other_output_is_not_promoted_however_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch, {CONTROL: 100.0, "other": 130.0}, texts={"other": 7})
    verdict = run(tmp_path, small_experiment({"other": ()}, **WHOLE))["verdicts"]["other"]
    assert verdict["verdict"] == "improvement"
    assert "exact output" in str(verdict["reasons"])
    (promotion,) = [one for _, one in Ledger(tmp_path).records("decision") if one["stage"] == "promotion"]
    assert promotion["outputs"]["exactness"] == "differs"
    assert promotion["outputs"]["differences"][0]["position"] == 0


@pytest.mark.parametrize("drafted", [5.0, None], ids=["drafts", "uncounted"])
def test_agreeing_with_a_control_that_may_speculate_is_no_exact_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drafted: float | None
) -> None:
    simulate(monkeypatch, {CONTROL: 100.0, "faster": 130.0}, drafted={CONTROL: drafted})
    verdict = run(tmp_path, small_experiment({"faster": ()}, **WHOLE))["verdicts"]["faster"]
    assert verdict["verdict"] == "improvement"
    (exact,) = [one for one in verdict["requirements"] if one["name"] == "exact output"]
    assert exact["status"] == "not shown"
    assert exact["detail"].startswith("token-exact against the control, ")


@pytest.mark.parametrize(("text", "verdict"), [(0, "promoted"), (7, "improvement")])
def test_a_reference_is_the_target_alone_beside_a_control_that_speculates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: int, verdict: str
) -> None:
    speeds = {CONTROL: 100.0, "faster": 130.0, "reference": 50.0}
    drafted = {CONTROL: 5.0, "faster": 5.0, "reference": None}
    lanes = simulate(monkeypatch, speeds, drafted=drafted, texts={"reference": text})
    experiment = small_experiment({"faster": ()}, **WHOLE, reference=small_target(name="reference"))
    found = run(tmp_path, experiment)["verdicts"]["faster"]
    assert found["verdict"] == verdict, found["reasons"]
    (exact,) = [one for one in found["requirements"] if one["name"] == "exact output"]
    outcome = "differs from" if text else "token-exact against"
    assert exact["detail"].startswith(f"{outcome} the reference")
    assert [one.arm for one in lanes.requests].count("reference") == 1
    assert verify(Ledger(tmp_path)).holds


def test_evidence_of_a_promotion_that_its_lanes_do_not_give_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes a promotion down that was none is contradicted by the lanes that it names."""
    simulate(monkeypatch, {CONTROL: 100.0, "other": 130.0}, texts={"other": 7}, drafted={CONTROL: 5.0})
    run(tmp_path, small_experiment({"other": ()}, **WHOLE))
    ledger = Ledger(tmp_path)
    assert verify(ledger).holds
    (true,) = [one for _, one in ledger.records("decision") if one["stage"] == "promotion"]
    evidence = true["promotion"]
    assert (evidence["outcome"], evidence["drafts"], evidence["against"]) == ("differs", True, CONTROL)
    forgeries: dict[str, dict[str, Any]] = {
        "outcome": {"outcome": "token-exact"},
        "drafts": {"drafts": False},
        "against": {"against": "reference"},
        "identical_servers": {"identical_servers": 3},
        "suite_faults": {"suite_faults": ["none was asked"]},
        "repeat, found": {"repeated_lanes": true["candidate_lanes"]},
        "reference reference, found": {"reference_lanes": true["candidate_lanes"]},
        "none named": {},
    }
    told: dict[str, str] = {}
    for name, change in forgeries.items():
        forged = {"selected_on": []} if name == "none named" else {**evidence, **change}
        told[ledger.add({**true, "promotion": forged})] = name
    findings = {one.where: one.what for one in verify(ledger).findings}
    assert findings.keys() == told.keys()
    for digest, name in told.items():
        assert name in findings[digest]


def test_lanes_that_chose_a_candidate_cannot_stand_behind_its_promotion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch, {CONTROL: 100.0, "faster": 130.0})
    run(tmp_path, small_experiment({"faster": ()}, **WHOLE))
    ledger = Ledger(tmp_path)
    (true,) = [one for _, one in ledger.records("decision") if one["stage"] == "promotion"]
    (screen,) = [one for _, one in ledger.records("decision") if one["stage"] == "screen"]
    digest = ledger.add(
        {
            **true,
            "control_lanes": screen["control_lanes"],
            "promotion": {**true["promotion"], "selected_on": []},
        }
    )
    (finding,) = verify(ledger).findings
    assert finding.where == digest
    assert "control screen" in finding.what


def test_part_of_a_suite_is_not_promoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch, {CONTROL: 100.0, "faster": 130.0})
    stages = {"confirmation": 12, "confirmation_cap": 128}
    verdict = run(tmp_path, small_experiment({"faster": ()}, stages=stages))["verdicts"]["faster"]
    assert verdict["verdict"] == "improvement"
    (whole,) = [one for one in verdict["requirements"] if one["name"] == "the whole suite"]
    assert "cap-512" in whole["detail"]
    assert "whole-suite" in whole["detail"]


def test_lanes_that_fail_the_gate_are_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(record: dict[str, Any], number: int) -> None:
        if record["arm"] == "cached" and record["stage"] != "smoke":
            record["canaries"][0]["passed"] = 0

    lanes = simulate(monkeypatch, {CONTROL: 100.0, "cached": 200.0}, spoil=spoil)
    record = run(tmp_path, small_experiment({"cached": ()}, stages={"screen": 6}))
    assert record["verdicts"]["cached"]["verdict"] == "invalid"
    assert "canaries-pass" in str(record["verdicts"]["cached"]["reasons"])
    assert len(lanes.requests) == 2 + 4  # given up after the second invalid lane


def test_the_bank_plans_and_does_not_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quiet past, then lanes that vary 40 times as much: an experiment is decided as if there were no past."""
    speeds = {CONTROL: 100.0, "same": 100.0}
    experiment = small_experiment({"same": ()}, stages={"screen": 4, "confirmation": 4, "repeat": 0})
    quiet = replace(experiment, stages=replace(experiment.stages, screen=0))
    simulate(monkeypatch, speeds, noise=0.0005)
    run(tmp_path / "past", quiet)
    ledger = Ledger(tmp_path / "past")
    bank = own_bank(ledger, experiment, experiment.stages.confirmation_cap)
    assert bank.noise.degrees > 0
    assert bank.noise.deviation < 0.002
    verdicts = []
    for folder in ("past", "none"):
        simulate(monkeypatch, speeds, noise=0.02)
        run(tmp_path / folder, experiment)
        last = [one for _, one in Ledger(tmp_path / folder).records("decision")][-2:]
        assert {one["plan"]["noise"]["degrees"] for one in last} == {0}
        verdicts.append([one["decision"] for one in last])
    assert verdicts[0] == verdicts[1]
    assert {one["verdict"] for one in verdicts[0]} == {"cannot tell"}
    print_outlook(experiment, experiment_outlook(ledger, experiment))
    said = capsys.readouterr().out
    assert "past controls of this ledger" in said
    own = own_bank(ledger, experiment, experiment.stages.confirmation_cap)
    (row,) = plan_experiment(own, experiment.plan, [4], [])["detectable"]
    assert row["noise_unknown_percent"] > 1.2 * row["bank_noise_percent"]
    assert f"from {row['noise_unknown_percent']:.1f}% on" in said


def test_the_bank_reads_the_newest_controls_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = small_experiment({"same": ()}, stages={"screen": 0, "confirmation": 4, "repeat": 0})
    for noise in (0.2, 0.001):
        simulate(monkeypatch, {CONTROL: 100.0, "same": 50.0}, noise=noise)
        run(tmp_path, experiment)
    cap = experiment.stages.confirmation_cap
    newest = own_bank(Ledger(tmp_path), experiment, cap)
    monkeypatch.setattr("verispec.lab.experiment.bank.MOST_CONTROLS", len(newest.batches[0]))
    limited = own_bank(Ledger(tmp_path), experiment, cap)
    assert len(newest.batches) == 2
    assert limited.batches == newest.batches[:1]
    assert limited.noise.deviation < 0.01 < newest.noise.deviation


def test_what_was_tried_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch, {CONTROL: 100.0, "six": 50.0, "sixteen": 100.0})
    arms = {"six": ("--unroll", "6"), "sixteen": ("--unroll", "16")}
    run(tmp_path, small_experiment(arms, intent="Loops are short.", stages={"screen": 6, "confirmation": 0}))
    (found,) = ask(Ledger(tmp_path), "unroll 6")
    assert (found.arm, found.verdict) == ("six", "regression")
    assert found.effect_percent == pytest.approx(-50, abs=5)
    assert found.interval_percent[1] < 0  # type: ignore[index,operator]
    assert [one.arm for one in ask(Ledger(tmp_path), "loops --unroll")] == ["six", "sixteen"]
    assert ask(Ledger(tmp_path), "unroll 7") == []


def test_a_crash_and_an_inert_knob_are_verdicts_of_the_smoke_stage(tmp_path: Path) -> None:
    arms: dict[str, tuple[str, ...]] = {
        "again": (),
        "dead": ("--fault", "dies-at-start"),
        "inert": ("--p-min", "0.3"),
        "other": ("--seed", "3", "--rows", "2"),
    }
    experiment = small_experiment(arms, stages={"screen": 0, "confirmation": 0})
    must_differ = small_target("--p-min", "0.3", activation=[{"knob": "--p-min", "differs": True}])
    record = run(tmp_path, replace(experiment, arms={**experiment.arms, "inert": must_differ}))
    verdicts = record["verdicts"]
    assert verdicts["dead"]["verdict"] == verdicts["inert"]["verdict"] == "invalid"
    assert "crashed" in str(verdicts["dead"]["reasons"])
    assert "no such kernel" in str(verdicts["dead"]["reasons"])
    assert "--p-min is unread" in str(verdicts["inert"]["reasons"])
    assert "other" not in verdicts
    assert record["second_controls"] == ["again"]


def test_a_control_that_fails_the_gate_decides_nothing(tmp_path: Path) -> None:
    record = run(tmp_path, small_experiment({"any": ()}, control=("--fault", "cached-unsaid")))
    assert record["verdicts"]["any"]["verdict"] == "invalid"
    assert "the control: nothing-cached" in str(record["verdicts"]["any"]["reasons"])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"control": {}, "candidate": []}, "at least one candidate"),
        ({"candidate": [{"arguments": ["--x"]}], "speed": 3}, "found 'speed'"),
        ({"candidate": [{"argument": ["--x"]}]}, "found 'argument'"),
        ({"candidate": [{}], "stages": {"screens": 3}}, "screens"),
        ({"candidate": [{"name": "a"}, {"name": "a"}]}, "'a' twice"),
        ({"candidate": [{}], "metric": "ttft"}, "metric"),
    ],
)
def test_a_description_that_means_nothing_is_refused(content: dict[str, Any], complaint: str) -> None:
    shared = {"name": "x", "target": {"profile": "verispec", "model": "m"}}
    with pytest.raises(OptionError, match=complaint):
        parse_experiment({**shared, **content}, "here")
