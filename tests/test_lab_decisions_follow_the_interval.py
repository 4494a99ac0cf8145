"""Verdicts come from the always-valid interval and from nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from paired_lanes import lane, lane_pairs
from verispec.errors import OptionError
from verispec.lab.decision import DecisionPlan, Verdict, balanced_order, decide
from verispec.lab.decision.verdict import verdict_of
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.statistics.evidence import LaneNoise

PLAN = DecisionPlan()


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.05, Verdict.IMPROVEMENT),
        (-0.05, -0.001, Verdict.REGRESSION),
        (-0.009, 0.009, Verdict.NO_DIFFERENCE),
        (0.001, 0.009, Verdict.NO_DIFFERENCE),
        (-0.009, 0.011, Verdict.CANNOT_TELL),
        (0.0, 0.05, Verdict.CANNOT_TELL),
        (-math.inf, math.inf, Verdict.CANNOT_TELL),
    ],
)
def test_the_rule(low: float, high: float, verdict: Verdict) -> None:
    assert verdict_of(low, high, 0.01) is verdict


@pytest.mark.parametrize(
    ("blocks", "effect", "verdict"),
    [
        (12, 0.06, Verdict.IMPROVEMENT),
        (12, -0.06, Verdict.REGRESSION),
        (400, 0.0, Verdict.NO_DIFFERENCE),
        (6, 0.01, Verdict.CANNOT_TELL),
    ],
)
def test_an_effect_gets_the_verdict_it_deserves(blocks: int, effect: float, verdict: Verdict) -> None:
    decision = decide(*lane_pairs(blocks, effect, 0.02), PLAN)
    assert decision.verdict is verdict
    low, high = decision.interval
    assert low < effect < high
    assert verdict_of(low, high, PLAN.log_margin) is verdict


def test_one_block_says_nothing_and_says_how_many_lanes_could() -> None:
    decision = decide(*lane_pairs(1, 0.5), PLAN)
    assert decision.verdict is Verdict.CANNOT_TELL
    assert decision.lanes_needed == 6
    assert decision.text == "cannot tell (needs 6 more lanes)"
    assert "one block alone" in decision.reasons[0]
    assert decide(*lane_pairs(4, 0.5), PLAN).verdict is Verdict.IMPROVEMENT


def test_the_lanes_said_to_be_needed_are_enough_when_things_stay_as_they_are() -> None:
    control, candidate = lane_pairs(6, 0.02, 0.02, seed=4)
    decision = decide(control, candidate, PLAN)
    assert decision.verdict is Verdict.CANNOT_TELL
    assert decision.shrunken is not None
    assert decision.lanes_needed is not None
    assert decision.lane_deviation is not None
    more = decision.lanes_needed // 2 + 6
    steady = np.tile([-1.0, 1.0], more // 2 + 1)[:more] * decision.lane_deviation
    stay = [lane("b", f"b{n}", np.array([4 + decision.shrunken + wave])) for n, wave in enumerate(steady)]
    still = [lane("a", f"b{n}", np.array([4 - wave])) for n, wave in enumerate(steady)]
    assert decide(still[: more // 2], stay[: more // 2], PLAN).verdict is Verdict.CANNOT_TELL
    assert decide(still + still, stay + stay, PLAN).verdict is not Verdict.CANNOT_TELL


def test_candidates_searched_widen_the_interval() -> None:
    lanes = lane_pairs(8, 0.03, 0.015, seed=1)
    alone, among_many = decide(*lanes, PLAN), decide(*lanes, replace(PLAN, searched=500))
    assert alone.verdict is Verdict.IMPROVEMENT
    assert among_many.verdict is Verdict.CANNOT_TELL
    assert among_many.level == pytest.approx(0.0001)
    assert among_many.effect == alone.effect


def test_blocks_with_one_arm_are_left_out_and_named() -> None:
    control, candidate = lane_pairs(6, 0.05, 0.01)
    alone = lane("candidate", "elsewhere", np.full(12, 9.0))
    decision = decide(control, [*candidate, alone], PLAN)
    assert decision.effect == decide(control, candidate, PLAN).effect
    assert any("candidate-elsewhere" in reason for reason in decision.reasons)


def test_only_prompts_that_all_lanes_answered_are_compared() -> None:
    control, candidate = lane_pairs(6, 0.05, 0.01)
    short = replace(candidate[0], values=candidate[0].values[:9])
    decision = decide(control, [short, *candidate[1:]], PLAN)
    assert len(decision.prompt_effects) == 9
    assert decision.effect == pytest.approx(decide(control, candidate, PLAN).effect, abs=1e-9)
    assert any("9 of 12 prompts" in reason for reason in decision.reasons)


def test_lanes_that_cannot_be_compared_are_invalid_with_the_reason() -> None:
    control, candidate = lane_pairs(2, 0.1, 0.01)
    elsewhere = [replace(one, block=f"other-{one.block}") for one in candidate]
    assert decide([], candidate, PLAN).reasons == ("no valid lane of the control",)
    assert decide(control, elsewhere, PLAN).reasons == ("no block holds lanes of both arms",)
    other_prompt = [replace(one, values=(replace(one.values[0], prompt="other"),)) for one in candidate]
    decision = decide(control, other_prompt, PLAN)
    assert decision.verdict is Verdict.INVALID
    assert decision.reasons == ("the lanes share no prompt",)


def test_known_noise_lets_few_lanes_decide() -> None:
    bank = replace(PLAN, noise=LaneNoise(45 * 0.02**2, 45))
    lanes = lane_pairs(3, 0.09, 0.02, seed=2)
    assert decide(*lanes, PLAN).verdict is Verdict.CANNOT_TELL
    decision = decide(*lanes, bank)
    assert decision.verdict is Verdict.IMPROVEMENT
    assert any("45 degrees of freedom" in reason for reason in decision.reasons)


def test_known_noise_that_the_lanes_contradict_is_left_out() -> None:
    too_quiet = replace(PLAN, noise=LaneNoise(45 * 0.001**2, 45))
    lanes = lane_pairs(8, 0.01, 0.03)
    decision = decide(*lanes, too_quiet)
    assert any(reason.startswith("the bank is left out") for reason in decision.reasons)
    assert decision.interval == decide(*lanes, PLAN).interval


def test_lanes_without_any_noise_are_decided_too() -> None:
    decision = decide(*lane_pairs(5, 0.0), PLAN)
    assert decision.verdict is Verdict.NO_DIFFERENCE
    assert decide(*lane_pairs(5, 0.02), PLAN).verdict is Verdict.IMPROVEMENT


@pytest.mark.parametrize("wrong", [{"margin": 0.0}, {"alpha": 1.0}, {"searched": 0}, {"tail_margin": -1.0}])
def test_a_plan_that_means_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        DecisionPlan(**wrong)  # type: ignore[arg-type]


def test_a_decision_is_written_in_percent() -> None:
    record = decide(*lane_pairs(12, math.log(1.06), 0.01), PLAN).as_dict()
    assert record["verdict"] == "improvement"
    assert record["effect_percent"] == pytest.approx(6, abs=1)
    assert record["interval_percent"][0] < record["effect_percent"] < record["interval_percent"][1]
    assert record["interval_level"] == 0.95
    assert record["bootstrap_percent"][0] < record["effect_percent"]


def test_arms_on_different_devices_or_always_in_one_order_are_said_to_be_confounded() -> None:
    control, candidate = lane_pairs(6, 0.05, 0.01)
    elsewhere = [replace(one, device="gpu1") for one in candidate]
    assert any(reason.startswith("device and arm") for reason in decide(control, elsewhere, PLAN).reasons)
    later = [replace(one, order=1) for one in candidate]
    assert any("control ran first in all 6" in reason for reason in decide(control, later, PLAN).reasons)
    planned = balanced_order(["control", "candidate"], ["gpu0", "gpu1"], 3)
    lanes: dict[str, list[LaneValues]] = {"control": [], "candidate": []}
    for place, one in enumerate(planned):
        made = lane(one.arm, one.block, np.array([4.0 + 0.01 * place]), f"{place}")
        lanes[one.arm].append(replace(made, device=one.device, order=one.order))
    assert not any("confounded" in reason for reason in decide(*lanes.values(), PLAN).reasons)


def test_each_prompt_s_own_change_is_told() -> None:
    control, candidate = lane_pairs(4, 0.05)
    values = (
        replace(candidate[0].values[0], value=candidate[0].values[0].value * math.exp(0.4)),
        *candidate[0].values[1:],
    )
    effects = decide(control, [replace(candidate[0], values=values), *candidate[1:]], PLAN).prompt_effects
    assert effects["p0"] == pytest.approx(0.15)
    assert effects["p5"] == pytest.approx(0.05)
