"""The always-valid t-test: its closed form is the mixture it claims to be, and its interval is that test inverted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from verispec.lab.statistics.t_process import EFFECT_VARIANCE, half_width, log_e_value, running

information = st.floats(0.3, 200)
squares = st.floats(1e-8, 10)
degrees = st.integers(1, 300)
effects = st.floats(-1, 1)


@pytest.mark.parametrize(
    ("effect", "known", "residual", "freedom"),
    [(0.02, 1.5, 0.001, 2), (0.05, 4.0, 0.004, 7), (-0.01, 10.0, 0.02, 19), (0.0, 2.0, 0.01, 3)],
)
def test_the_evidence_is_the_average_likelihood_ratio_of_the_t_statistic(
    effect: float, known: float, residual: float, freedom: int
) -> None:
    """Under a standardised effect d the t statistic is noncentral with d * sqrt(information); d is Normal(0, g)."""
    t = effect * math.sqrt(known) / math.sqrt(residual / freedom)

    def weighted(d: float) -> float:
        likelihood = stats.nct.pdf(t, freedom, d * math.sqrt(known))
        return float(likelihood * stats.norm.pdf(d, scale=math.sqrt(EFFECT_VARIANCE)))

    average, _ = integrate.quad(weighted, -20, 20, limit=400)
    expected = average / stats.t.pdf(t, freedom)
    assert math.exp(log_e_value(effect, 0.0, known, residual, freedom)) == pytest.approx(expected, rel=1e-5)


@given(effects, information, squares, degrees, st.floats(0.001, 0.2), st.floats(0.01, 0.99))
@settings(max_examples=200, deadline=None)
def test_the_interval_holds_exactly_the_effects_that_are_not_rejected(
    effect: float, known: float, residual: float, freedom: int, alpha: float, share: float
) -> None:
    width = float(half_width(known, residual, freedom, alpha))
    near, far = (width * share, width / share) if math.isfinite(width) else (1e6 * share, 1e9)
    for tested in (effect + near, effect - near):
        assert log_e_value(effect, tested, known, residual, freedom) < -math.log(alpha) + 1e-6
    if math.isfinite(width):
        assert log_e_value(effect, effect + far, known, residual, freedom) > -math.log(alpha) - 1e-6


def test_without_freedom_nothing_is_known() -> None:
    assert half_width(0.5, 0.0, 0, 0.05) == math.inf
    assert log_e_value(3.0, 0.0, 0.5, 0.0, 0) == 0.0


@given(st.floats(0.01, 1000))
@settings(max_examples=30, deadline=None)
def test_the_unit_of_the_noise_does_not_matter(scale: float) -> None:
    data = np.random.default_rng(1).normal(0.01, 0.02, (1, 9))
    first = log_e_value(*_last(data))
    assert log_e_value(*_last(scale * data)) == pytest.approx(first, abs=1e-6)


def _last(data: np.ndarray) -> tuple[float, float, float, float, int]:
    estimate, known, residual = (values[0, -1] for values in running(data, np.array(0.5)))
    return float(estimate), 0.0, float(known), float(residual), data.shape[1] - 1


def test_looking_after_every_block_rarely_rejects_what_is_true() -> None:
    """Ville's inequality: at most 5% of experiments ever see evidence of 20 against the true effect."""
    effects = np.random.default_rng(2).normal(0.03, 0.02, (4000, 80))
    estimate, known, residual = running(effects, np.array(0.5))
    evidence = log_e_value(estimate, 0.03, known, residual, np.arange(80))
    ever = (evidence >= math.log(20)).any(axis=1).mean()
    assert 0.005 < ever < 0.05


def test_running_sums_agree_with_weighted_least_squares() -> None:
    draw = np.random.default_rng(3)
    effects, weights = draw.normal(0, 1, 6), draw.uniform(0.5, 2, 6)
    estimate, known, residual = running(effects[None], weights)
    mean = np.average(effects, weights=weights)
    assert estimate[0, -1] == pytest.approx(mean)
    assert known[0, -1] == pytest.approx(weights.sum())
    assert residual[0, -1] == pytest.approx(np.sum(weights * (effects - mean) ** 2))
