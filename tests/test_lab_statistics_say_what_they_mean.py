"""The lab's other statistics against definitions, other implementations and truths that were planted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from paired_lanes import lane, lane_pairs
from verispec.errors import OptionError
from verispec.lab.evidence_rows import LaneValues, PromptValue
from verispec.lab.statistics.block_effects import block_effects, shared_prompts
from verispec.lab.statistics.blocked_bootstrap import bootstrap_interval
from verispec.lab.statistics.equal_variances import vary_alike
from verispec.lab.statistics.evidence import LaneNoise, combine
from verispec.lab.statistics.fixed_size import (
    lanes_per_arm,
    paired_power,
    pairs_for_power,
    smallest_for_pairs,
)
from verispec.lab.statistics.identical_lanes import batch_noise, lane_noise
from verispec.lab.statistics.mcnemar import exact_mcnemar
from verispec.lab.statistics.multiplicity import bonferroni, e_benjamini_hochberg, selected_level
from verispec.lab.statistics.proportions import Proportion
from verispec.lab.statistics.shrinkage import learn_effects, unknown_effects
from verispec.lab.statistics.two_factors import two_factors
from verispec.lab.statistics.variance_components import variance_components


def test_mcnemar_counts_the_tail_of_the_disagreements() -> None:
    control = [True] * 5 + [True] * 2 + [False] * 9 + [False] * 4
    candidate = [True] * 5 + [False] * 2 + [True] * 9 + [False] * 4
    scores = exact_mcnemar(control, candidate)
    assert (scores.both, scores.only_control, scores.only_candidate, scores.neither) == (5, 2, 9, 4)
    tail = sum(math.comb(11, k) for k in range(3)) / 2**11
    assert scores.p_value == pytest.approx(2 * tail)
    assert exact_mcnemar([True, False], [True, False]).p_value == 1.0


def test_mcnemar_refuses_scores_of_different_tasks() -> None:
    with pytest.raises(OptionError, match="found 2 and 1"):
        exact_mcnemar([True, False], [True])


def test_e_benjamini_hochberg_rejects_the_largest_set_that_holds() -> None:
    """Against its definition, by trying every k: the k-th largest e-value is at least K / (alpha k)."""
    draw = np.random.default_rng(0)
    for _ in range(50):
        e_values = list(np.exp(draw.normal(2, 3, 8)))
        ordered = sorted(e_values, reverse=True)
        largest = max((k for k in range(1, 9) if ordered[k - 1] >= 8 / (0.05 * k)), default=0)
        rejected = e_benjamini_hochberg(e_values, 0.05)
        assert sum(rejected) == largest
        assert all(
            e_values[i] >= e_values[j] for i in range(8) for j in range(8) if rejected[i] > rejected[j]
        )


def test_more_candidates_make_every_claim_harder() -> None:
    assert bonferroni(0.05, 20) == pytest.approx(0.0025)
    assert selected_level(0.05, 100, 4) == pytest.approx(0.002)
    assert selected_level(0.05, 100, 0) == pytest.approx(0.0005)
    assert e_benjamini_hochberg([25.0], 0.05) == [True]
    assert e_benjamini_hochberg([25.0, 1.0], 0.05) == [False, False]


def test_an_upper_bound_of_a_share_is_exact() -> None:
    bound = Proportion(3, 50).upper()
    assert stats.binom.cdf(3, 50, bound) == pytest.approx(0.05)
    assert Proportion(7, 7).upper() == 1.0
    assert Proportion(0, 100).upper() == pytest.approx(1 - 0.05 ** (1 / 100))


def test_blocks_and_prompts_cancel_and_weights_follow_the_lanes() -> None:
    rates = np.array([4.0, 5.0, 3.0])
    control = [lane("a", "x", rates), lane("a", "x", rates + 0.02, "a2"), lane("a", "y", rates + 9)]
    candidate = [lane("b", "x", rates + 0.11), lane("b", "y", rates + 9.2), lane("b", "z", rates)]
    x, y = block_effects(control, candidate, ["p0", "p1", "p2"])
    assert (x.effect, y.effect) == (pytest.approx(0.10), pytest.approx(0.2))
    assert (x.information, y.information) == (pytest.approx(2 / 3), pytest.approx(1 / 2))
    assert (x.degrees, x.squares) == (1, pytest.approx(0.0002))
    evidence = combine([x, y], LaneNoise(0.0, 0))
    assert evidence.effect == pytest.approx((0.1 * 2 / 3 + 0.2 / 2) / (2 / 3 + 1 / 2))
    assert evidence.noise.degrees == 2


def test_pooled_evidence_is_ordinary_least_squares() -> None:
    """Block dummies and one arm column: the same effect, residual squares and freedom."""
    draw = np.random.default_rng(4)
    sizes = [(2, 1), (1, 1), (2, 3)]
    control, candidate, rows, values = [], [], [], []
    for block, (controls, candidates) in enumerate(sizes):
        for arm, count in ((0, controls), (1, candidates)):
            for number in range(count):
                value = block + 0.05 * arm + draw.normal(0, 0.02)
                one = lane("ab"[arm], f"b{block}", np.array([value]), f"{block}{arm}{number}")
                (candidate if arm else control).append(one)
                rows.append([*(float(block == place) for place in range(3)), float(arm)])
                values.append(value)
    solution, residual, _, _ = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)
    evidence = combine(block_effects(control, candidate, ["p0"]), LaneNoise(0.0, 0))
    assert evidence.effect == pytest.approx(solution[3])
    assert evidence.noise.squares == pytest.approx(residual[0])
    assert evidence.noise.degrees == len(values) - 4


def test_batches_of_identical_lanes_are_compared_as_in_any_textbook() -> None:
    batches = [[96.0, 97.0, 99.0], [95.0, 95.5], [98.0, 97.0, 96.0, 99.5]]
    noise = batch_noise(batches)
    f, p = stats.f_oneway(*batches)
    assert (noise.f, noise.p) == (pytest.approx(f), pytest.approx(p))
    squares = sum(np.var(batch) * len(batch) for batch in batches)
    assert noise.within == pytest.approx(math.sqrt(squares / 6))
    assert lane_noise(batches).deviation == pytest.approx(noise.variation, rel=0.02)


def test_different_noise_is_noticed() -> None:
    """The F test against scipy's distribution, for single numbers and for a row of looks."""
    for squares, degrees in ((1.1, 10), (9.0, 10), (0.01, 10), (2.0, 3), (0.2, 40)):
        ratio = squares / degrees / (1.0 / 40)
        below = stats.f.cdf(ratio, degrees, 40)
        assert vary_alike(squares, degrees, 1.0, 40, 0.01) == (2 * min(below, 1 - below) >= 0.01)
    looks = vary_alike(np.array([[0.0, 0.02, 9.0], [0.0, 9.0, 0.05]]), np.arange(3), 1.0, 40, 0.01)
    assert looks.tolist() == [[True, True, False], [True, False, True]]


def test_variance_components_find_what_was_planted() -> None:
    draw = np.random.default_rng(5)
    prompts = draw.normal(0, 0.3, 40)
    batches = [
        [
            lane(
                "a",
                f"b{batch}",
                4 + prompts + draw.normal(0, 0.1) + draw.normal(0, 0.05, 40),
                f"{batch}-{one}",
            )
            for one in range(4)
        ]
        for batch in range(60)
    ]
    found = variance_components(batches)
    assert found.prompt_in_lane == pytest.approx(0.05, rel=0.05)
    assert found.lane == pytest.approx(0.1, rel=0.15)
    assert found.prompt == pytest.approx(float(prompts.std(ddof=1)), rel=0.1)
    assert found.lane_mean(12) == pytest.approx(math.hypot(found.lane, found.prompt_in_lane / math.sqrt(12)))


def test_the_two_factors_add_up_and_name_the_culprit() -> None:
    """Tokens per pass rise by 8% and passes take 2% longer."""
    draw = np.random.default_rng(6)
    arms: dict[str, tuple[list[LaneValues], list[LaneValues]]] = {"control": ([], []), "candidate": ([], [])}
    for block, arm in itertools.product(range(12), arms):
        noisy, steady = draw.normal(0, 0.02, 12), draw.normal(0, 0.001, 12)
        tokens = math.log(2.5) + noisy + math.log(1.08) * (arm == "candidate")
        seconds = math.log(0.02) + steady + math.log(1.02) * (arm == "candidate")
        arms[arm][0].append(lane(arm, f"b{block}", tokens))
        arms[arm][1].append(lane(arm, f"b{block}", seconds))
    (control_tokens, control_seconds), (candidate_tokens, candidate_seconds) = arms.values()
    split = two_factors(control_tokens, candidate_tokens, control_seconds, candidate_seconds)
    assert split.speed.effect == pytest.approx(split.tokens_per_pass.effect + split.passes_per_second.effect)
    assert split.passes_per_second.high < 0 < split.tokens_per_pass.low
    assert split.passes_per_second.effect == pytest.approx(-math.log(1.02), abs=0.002)
    assert split.passes_per_second.lane_deviation < split.tokens_per_pass.lane_deviation / 5


def test_the_bootstrap_describes_what_blocks_and_prompts_do() -> None:
    control, candidate = lane_pairs(30, 0.05, 0.02)
    low, high = bootstrap_interval(block_effects(control, candidate, shared_prompts(control))) or (1.0, 0.0)
    assert low < 0.05 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.02 * math.sqrt(2 / 30), rel=0.35)
    one = block_effects([lane("a", "x", np.zeros(1))], [lane("b", "x", np.zeros(1))], ["p0"])
    assert bootstrap_interval(one) is None


def test_lanes_for_a_fixed_size_follow_the_formula() -> None:
    assert [lanes_per_arm(0.0205, effect) for effect in (0.01, 0.02, 0.03, 0.05)] == [66, 17, 8, 3]


def test_power_of_the_paired_t_test_is_what_simulation_finds() -> None:
    draws = np.random.default_rng(7).normal(0.03, 0.02 * math.sqrt(2), (20_000, 9))
    found = np.abs(stats.ttest_1samp(draws, 0, axis=1).statistic) > stats.t.ppf(0.975, 8)
    assert paired_power(9, 0.02, 0.03) == pytest.approx(float(found.mean()), abs=0.012)
    pairs = pairs_for_power(0.02, 0.03)
    assert paired_power(pairs - 1, 0.02, 0.03) < 0.8 <= paired_power(pairs, 0.02, 0.03)
    smallest = smallest_for_pairs(pairs, 0.02)
    assert smallest is not None
    assert smallest <= 0.03
    assert paired_power(pairs, 0.02, smallest) == pytest.approx(0.8, abs=0.001)


def test_shrinking_takes_back_what_choosing_the_best_added() -> None:
    """True effects are nothing or a loss. The winner of 40 looks better than it is; shrunken, it does not."""
    draw = np.random.default_rng(8)
    raw_error, shrunken_error = [], []
    for _ in range(60):
        truth = np.where(draw.random(40) < 0.3, -np.abs(draw.normal(0, 0.05, 40)), 0.0)
        seen = truth + draw.normal(0, 0.02, 40)
        best = int(seen.argmax())
        prior = learn_effects(seen, np.full(40, 0.02))
        raw_error.append(seen[best] - truth[best])
        shrunken_error.append(prior.shrink(seen[best], 0.02, 30) - truth[best])
    assert np.mean(raw_error) > 0.03
    assert abs(np.mean(shrunken_error)) < 0.01


@pytest.mark.parametrize("prior", [unknown_effects(), learn_effects([0.0] * 30, [0.01] * 30)])
def test_a_large_effect_is_not_shrunk_away(prior: object) -> None:
    assert prior.shrink(0.6, 0.02, 8) == pytest.approx(0.6, abs=0.02)  # type: ignore[attr-defined]
    assert prior.shrink(math.log(20), 0.02, 8) == math.log(20)  # type: ignore[attr-defined]
    assert abs(prior.shrink(0.01, 0.02, 8)) < 0.005  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [0.0, -3.0, math.nan, math.inf])
def test_a_value_that_is_no_rate_is_refused(value: float) -> None:
    with pytest.raises(OptionError, match="above zero"):
        PromptValue("p", "k", value)


def test_a_prompt_asked_twice_is_refused() -> None:
    with pytest.raises(OptionError, match="'p' more often"):
        LaneValues("l", "a", "b", "d", 0, (PromptValue("p", "k", 1.0), PromptValue("p", "k", 2.0)))
    with pytest.raises(OptionError, match="at least one prompt"):
        LaneValues("l", "a", "b", "d", 0, ())
