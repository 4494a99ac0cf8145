"""A promotion needs every named requirement; each one alone stops it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paired_lanes import lane, lane_pairs
from verispec.lab.decision import Decision, DecisionPlan, PromotionEvidence, Status, Verdict, promote
from verispec.lab.evidence_rows import LaneValues

PLAN = DecisionPlan()
PROOF = PromotionEvidence(
    selected_on=frozenset({"screened"}),
    outcome="token-exact",
    against="control",
    drafts=False,
    identical_servers=2,
    suite_faults=(),
)


def open_requirements(decision: Decision) -> dict[str, Status]:
    return {one.name: one.status for one in decision.requirements if one.status is not Status.MET}


def test_all_of_them_together_promote() -> None:
    decision = promote(*lane_pairs(16, 0.05, 0.01), PLAN, PROOF)
    assert decision.verdict is Verdict.PROMOTED
    assert [one.name for one in decision.requirements] == [
        "fresh data",
        "exact output",
        "effect above the margin",
        "no loss in p10",
        "two fresh servers with identical tokens",
        "balanced over devices and time",
        "the whole suite",
    ]


@pytest.mark.parametrize(
    ("change", "name", "status"),
    [
        ({"selected_on": frozenset({"candidate-b3"})}, "fresh data", Status.FAILED),
        ({"outcome": "differs"}, "exact output", Status.FAILED),
        ({"outcome": None}, "exact output", Status.NOT_SHOWN),
        ({"drafts": True}, "exact output", Status.NOT_SHOWN),
        ({"drafts": None}, "exact output", Status.NOT_SHOWN),
        ({"drafts": True, "against": "reference"}, "exact output", Status.NOT_SHOWN),
        ({"identical_servers": 1}, "two fresh servers with identical tokens", Status.NOT_SHOWN),
        ({"suite_faults": ("cap is 128, expected 512",)}, "the whole suite", Status.FAILED),
        ({"suite_faults": None}, "the whole suite", Status.NOT_SHOWN),
    ],
)
def test_each_proof_is_needed(change: dict[str, object], name: str, status: Status) -> None:
    decision = promote(*lane_pairs(16, 0.05, 0.01), PLAN, replace(PROOF, **change))
    assert decision.verdict is Verdict.IMPROVEMENT
    assert open_requirements(decision) == {name: status}
    assert any(reason.startswith(f"not promoted: {name}") for reason in decision.reasons)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "token-exact against the control, which drafts no tokens"),
        ({"outcome": "text-exact"}, "text-exact against the control, which drafts no tokens"),
        (
            {"against": "reference", "drafts": None},
            "token-exact against the reference, which is declared to be the target alone",
        ),
    ],
)
def test_what_exact_output_was_compared_with_is_said(change: dict[str, object], said: str) -> None:
    decision = promote(*lane_pairs(16, 0.05, 0.01), PLAN, replace(PROOF, **change))
    assert decision.verdict is Verdict.PROMOTED
    assert [one.detail for one in decision.requirements if one.name == "exact output"] == [said]


def test_an_effect_that_may_be_below_the_margin_is_not_promoted() -> None:
    decision = promote(*lane_pairs(16, 0.02, 0.01), replace(PLAN, margin=0.015), PROOF)
    assert decision.verdict is Verdict.IMPROVEMENT
    assert open_requirements(decision)["effect above the margin"] is Status.NOT_SHOWN


def test_a_faster_mean_with_a_slower_tail_is_not_promoted() -> None:
    control, candidate = lane_pairs(16, 0.08, 0.005)
    slowed = [_slow_tail(one) for one in candidate]
    decision = promote(control, slowed, PLAN, PROOF)
    assert decision.verdict is Verdict.IMPROVEMENT
    assert open_requirements(decision) == {"no loss in p10": Status.FAILED}


def _slow_tail(one: LaneValues) -> LaneValues:
    """The two slowest prompts lose a tenth."""
    slowest = sorted(one.values, key=lambda value: value.value)[:2]
    return replace(
        one,
        values=tuple(
            replace(value, value=value.value * 0.9) if value in slowest else value for value in one.values
        ),
    )


def test_a_tail_too_noisy_to_judge_is_not_shown() -> None:
    """The median of the three slowest prompts jumps by 15% from lane to lane; the nine others are much faster."""
    draw = np.random.default_rng(1)
    control, candidate = lane_pairs(16, 0.3, 0.01)
    noisy = [_jumping_tail(one, draw) for one in candidate]
    decision = promote(control, noisy, PLAN, PROOF)
    assert decision.verdict is Verdict.IMPROVEMENT
    assert open_requirements(decision) == {"no loss in p10": Status.NOT_SHOWN}


def _jumping_tail(one: LaneValues, draw: np.random.Generator) -> LaneValues:
    slowest = sorted(one.values, key=lambda value: value.value)[:3]
    jump = float(np.exp(draw.normal(-0.3, 0.15)))
    return replace(
        one,
        values=tuple(
            replace(value, value=value.value * jump) if value in slowest else value for value in one.values
        ),
    )


def test_lane_summaries_cannot_be_promoted() -> None:
    control = [lane("a", f"b{n}", np.array([4.0 + 0.001 * (n % 3)])) for n in range(8)]
    candidate = [lane("b", f"b{n}", np.array([4.2])) for n in range(8)]
    decision = promote(control, candidate, PLAN, PROOF)
    assert decision.verdict is Verdict.IMPROVEMENT
    assert open_requirements(decision) == {
        "no loss in p10": Status.NOT_SHOWN,
        "the whole suite": Status.FAILED,
    }


def test_too_few_classes_are_not_the_suite() -> None:
    control, candidate = lane_pairs(16, 0.05, 0.01)
    same = [
        [replace(one, values=tuple(replace(v, kind="code") for v in one.values)) for one in arm]
        for arm in (control, candidate)
    ]
    assert open_requirements(promote(*same, PLAN, PROOF)) == {"the whole suite": Status.FAILED}


def test_no_lanes_no_promotion() -> None:
    decision = promote([], [], PLAN, PROOF)
    assert decision.verdict is Verdict.INVALID


def test_lanes_that_confound_arm_and_device_are_not_promoted() -> None:
    control, candidate = lane_pairs(16, 0.05, 0.01)
    elsewhere = [replace(one, device="gpu1") for one in candidate]
    decision = promote(control, elsewhere, PLAN, PROOF)
    assert open_requirements(decision) == {"balanced over devices and time": Status.FAILED}
