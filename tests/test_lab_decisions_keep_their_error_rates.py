"""The lab's errors stay below what it promises; a small edition of ``verispec lab simulate``."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from paired_lanes import lane
from verispec.errors import OptionError
from verispec.lab.decision import DecisionPlan, Verdict, decide
from verispec.lab.experiment.spec import plan_record
from verispec.lab.noise_bank import PUBLISHED, bank_of_lanes, read_bank, write_banks
from verispec.lab.planning import plan_experiment
from verispec.lab.report.power import power_of
from verispec.lab.simulation.false_improvements import simulate_no_effect, simulate_wrong_bank
from verispec.lab.simulation.lane_noise import (
    heavy_noise,
    normal_noise,
    pair_effects,
    resampled_noise,
    widened_noise,
)
from verispec.lab.simulation.promises import LIMIT, promises
from verispec.lab.simulation.search_over_noise import simulate_search
from verispec.lab.simulation.sequential import stop_at_first_verdict
from verispec.lab.simulation.sequential_power import improvements_by_pair, pairs_for, smallest_detectable
from verispec.lab.simulation.study import FORMAT, Study, run_study
from verispec.lab.simulation.true_effects import simulate_effect
from verispec.lab.statistics.evidence import LaneNoise

PLAN = DecisionPlan()
BANK = read_bank(PUBLISHED, "512", "median")
DEVIATION = BANK.noise.deviation
SHAPES = {
    "normal": normal_noise(DEVIATION),
    "resampled": resampled_noise(BANK.batches),
    "heavy-tailed": heavy_noise(DEVIATION),
}


@pytest.mark.parametrize("known", [LaneNoise(0.0, 0), BANK.noise], ids=["unknown", "bank"])
def test_arrays_of_experiments_are_decided_like_single_ones(known: LaneNoise) -> None:
    plan = DecisionPlan(noise=known)
    draw = np.random.default_rng(0)
    for effect, size in ((0.0, 1.0), (0.03, 1.0), (-0.08, 1.0), (0.0, 0.05), (0.02, 4.0)):
        effects = pair_effects(normal_noise(size * DEVIATION), draw, 2, 10, effect)
        stopped = stop_at_first_verdict(effects, plan)
        for row in range(len(effects)):
            assert _stop_by_decide(effects[row], plan) == (
                next(name for name, flags in stopped.verdicts.items() if flags[row]),
                stopped.pairs[row],
            )


def _stop_by_decide(effects: np.ndarray, plan: DecisionPlan) -> tuple[Verdict, int]:
    control = [lane("a", f"b{n}", np.zeros(1)) for n in range(len(effects))]
    candidate = [lane("b", f"b{n}", np.array([effect])) for n, effect in enumerate(effects)]
    for pairs in range(1, len(effects) + 1):
        verdict = decide(control[:pairs], candidate[:pairs], plan).verdict
        if verdict is not Verdict.CANNOT_TELL:
            break
    return verdict, pairs


@pytest.mark.parametrize("shape", SHAPES)
def test_without_an_effect_few_experiments_find_one(shape: str) -> None:
    result = simulate_no_effect(SHAPES[shape], PLAN, 2000, seed=1)
    assert result["false_improvement"]["upper_95"] <= LIMIT
    assert result["t_test_at_every_look"]["share"] > 2 * LIMIT


def test_a_bank_that_is_wrong_makes_no_improvements() -> None:
    """Lanes vary four times as much as the past says. Judged by themselves they keep what the bank would break."""
    result = simulate_wrong_bank(widened_noise(SHAPES["normal"], 4), BANK.noise, PLAN, 2000, seed=4)
    assert result["false_improvement"]["upper_95"] <= LIMIT
    assert result["bank_taken_as_known"]["share"] > 2 * LIMIT


def test_the_best_of_twenty_equals_is_not_promoted() -> None:
    result = simulate_search(SHAPES["normal"], PLAN, 1000, seed=2)
    assert result["promoted"]["upper_95"] <= LIMIT
    assert result["improvement_on_screen_corrected"]["upper_95"] <= LIMIT
    assert result["t_test_of_the_best"]["share"] > 0.3
    winner = result["winner"]
    assert winner["measured_percent"] > 1.5
    assert winner["shrunken_percent"] < winner["measured_percent"] / 3


@pytest.mark.parametrize("effect", [0.02, 0.03, 0.05])
def test_a_real_effect_is_found_within_twice_the_fixed_size(effect: float) -> None:
    result = simulate_effect(SHAPES["normal"], DEVIATION, effect, PLAN, 500, seed=3)
    twice = result["always_valid"][1]
    assert twice["power"] > 0.75
    assert twice["wrong_sign"]["share"] < 0.01
    assert twice["mean_lanes"] < 1.4 * result["fixed_size"]["lanes"]


def test_what_a_plan_calls_detectable_is_detected() -> None:
    smallest = smallest_detectable(DEVIATION, 10, PLAN)
    assert smallest is not None
    fresh = pair_effects(SHAPES["normal"], np.random.default_rng(9), 2000, 10, smallest)
    assert improvements_by_pair(fresh, PLAN)[-1] == pytest.approx(0.8, abs=0.03)
    pairs = pairs_for(DEVIATION, smallest, PLAN)
    assert pairs is not None
    assert abs(pairs - 10) <= 1
    assert smallest_detectable(DEVIATION, 2, PLAN) is None


def test_a_plan_tells_what_lanes_can_see_before_they_run() -> None:
    outlook = plan_experiment(BANK, PLAN, [4, 16], [0.03])
    few, many = outlook["detectable"]
    assert few["noise_unknown_percent"] > few["bank_noise_percent"] > many["bank_noise_percent"]
    assert many["noise_unknown_percent"] > many["fixed_size_percent"] > 1
    (needed,) = outlook["needed"]
    assert needed["noise_unknown_lanes"] >= needed["bank_noise_lanes"] >= needed["fixed_size_lanes"]


def test_a_report_says_what_the_plan_could_find_at_the_noise_that_was_met() -> None:
    plan = plan_record(PLAN)
    found = [
        power_of(
            {"stage": "confirmation", "plan": plan, "decision": {"lane_deviation_percent": met}},
            {"confirmation": 8},
            1,
        )
        for met in (0.5, 4.0, None)
    ]
    quiet, loud, unknown = (one.smallest_percent for one in found if one is not None)
    assert quiet is not None
    assert loud is not None
    assert unknown is not None
    assert loud > 6 * quiet
    assert quiet < unknown < loud
    assert found[2] is not None
    assert "published log" in found[2].source


def test_a_killed_study_goes_on_where_it_was(tmp_path: Path) -> None:
    study = Study((BANK,), 100, 100)
    path = tmp_path / "study.json"
    steps: list[int] = []

    def kill_at_five(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, path, kill_at_five)
    begun = json.loads(path.read_text())["cells"]
    assert len(begun) == 5
    first = next(iter(begun))
    begun[first]["result"]["kept"] = 1
    path.write_text(json.dumps({"format": FORMAT, "source": "x", "cells": begun}))
    report = run_study(study, path, lambda done, total: steps.append(total))
    assert set(steps) == {23}
    assert len(report["cells"]) == 23
    assert report["cells"][first]["result"]["kept"] == 1
    assert json.loads(path.read_text()) == report
    assert {entry["name"].split(" (")[0] for entry in promises(report)} == {
        "no effect, called an improvement",
        "no effect after a wrong bank, called an improvement",
        "best of 20 over noise, promoted",
        "any of 20 over noise, called an improvement",
    }


def test_a_study_asked_differently_is_run_again(tmp_path: Path) -> None:
    """What the file holds of this cell was made with other parameters; the rest is not reached."""
    path, key = tmp_path / "study.json", "no effect/median/unknown/normal"
    cell = {"parameters": {"experiments": 7}, "result": {"experiments": 7}}
    path.write_text(json.dumps({"format": FORMAT, "source": "x", "cells": {key: cell}}))
    with pytest.raises(KeyboardInterrupt):
        run_study(Study((BANK,), 100, 100), path, _kill_after_one)
    assert json.loads(path.read_text())["cells"][key]["result"]["experiments"] == 100


def _kill_after_one(done: int, total: int) -> None:
    if done == 1:
        raise KeyboardInterrupt


def test_a_file_that_is_no_study_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text("{}")
    with pytest.raises(OptionError, match="expected the format"):
        run_study(Study((BANK,), 100, 100), path, _kill_after_one)
    assert path.read_text() == "{}"


def test_the_committed_study_keeps_every_promise() -> None:
    report = json.loads(
        (Path(__file__).parent.parent / "benchmarks/results/lab-simulations.json").read_text()
    )
    entries = promises(report)
    assert len(entries) == 42
    assert all(entry["kept"] for entry in entries)
    assert min(entry["total"] for entry in entries) >= 2000


def test_the_published_bank_holds_the_log_s_noise() -> None:
    assert pytest.approx(0.0207, abs=0.0002) == DEVIATION
    assert sum(len(batch) for batch in BANK.batches) == 76
    assert math.isfinite(BANK.prior().shrink(0.05, 0.02, 10))


def test_a_bank_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="found 128 median"):
        read_bank(PUBLISHED, "64", "median")
    broken = tmp_path / "bank.json"
    broken.write_text('{"format": "verispec.lab.noise-bank/1", "banks": [{"source": "x"}]}')
    with pytest.raises(OptionError, match="stage"):
        read_bank(broken, "512", "median")


def test_a_bank_of_lanes_by_prompt_tells_lanes_from_prompts(tmp_path: Path) -> None:
    """Lanes vary by 1% as a whole and each prompt by 6% on its own: more prompts help, and the plan says so."""
    draw = np.random.default_rng(4)
    batches = [
        [
            lane("a", f"b{batch}", 4 + draw.normal(0, 0.01) + draw.normal(0, 0.06, 12), f"{batch}-{one}")
            for one in range(4)
        ]
        for batch in range(30)
    ]
    bank = bank_of_lanes("own", "128", "rate", batches)
    file = tmp_path / "bank.json"
    write_banks([bank], file)
    assert read_bank(file, "128", "rate") == bank
    assert bank.noise.deviation == pytest.approx(math.hypot(0.01, 0.06 / math.sqrt(12)), rel=0.1)
    outlook = plan_experiment(bank, PLAN, [4], [0.05])["by_prompts"]
    assert outlook["12"] == pytest.approx(100 * bank.noise.deviation, rel=0.02)
    assert outlook["4"] > 1.5 * outlook["12"] > 2 * outlook["48"]
