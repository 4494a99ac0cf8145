"""What a measured effect is likely to be worth, given how past candidates turned out (empirical Bayes).

The candidate that looks best is the one the noise was kindest to. Shrinking its estimate towards what candidates have
been worth so far takes that back (B. Efron, "Tweedie's formula and selection bias", JASA 106, 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from verispec.lab.statistics.t_process import Floats

GRID = 0.02 * np.sinh(np.linspace(-5.6, 5.6, 801))
"""True log effects considered: from 1/15 of the control's speed to 15 times it, densest around no effect."""

SPACING = np.gradient(GRID)
NOVEL_SCALE = 0.1
"""A candidate unlike all before it: Student's t with 2 degrees of freedom, so that it may be large."""

ITERATIONS = 300
FEWEST = 10
"""Past comparisons below which there is nothing to learn a distribution from."""


@dataclass(frozen=True, slots=True, eq=False)
class EffectPrior:
    """A distribution of true log effects: probabilities ``weights`` on the points ``effects``, equal shapes."""

    effects: Floats
    weights: Floats
    comparisons: int

    def shrink(self, effect: float, standard_error: float, degrees: int) -> float:
        """The posterior mean of the true log effect, given an estimate with this standard error."""
        nearest = int(np.argmin(np.abs(self.effects - effect)))
        if standard_error < SPACING[nearest] or not self.effects[0] < effect < self.effects[-1]:
            return effect  # finer than the grid, or beyond it
        log_likelihood = stats.t.logpdf((effect - self.effects) / standard_error, max(degrees, 1))
        log_posterior = log_likelihood + np.log(np.maximum(self.weights, 1e-300))
        posterior = np.exp(log_posterior - log_posterior.max())
        return float(np.sum(posterior * self.effects) / posterior.sum())


def unknown_effects() -> EffectPrior:
    """The prior when little is known of past candidates: half are worth about 2% or less either way."""
    return EffectPrior(GRID, 0.5 * _normal(0.02) + 0.5 * _novel(), 0)


def learn_effects(effects: Sequence[float], standard_errors: Sequence[float]) -> EffectPrior:
    """The distribution of true log effects behind past estimates.

    Nonparametric maximum likelihood by expectation-maximisation on a grid (J. Kiefer and J. Wolfowitz, 1956; N. Laird,
    1978; R. Koenker and I. Mizera, JASA 109, 2014), started from a wide normal. One part in (comparisons + 1) is kept
    for a candidate unlike any before it, so that a real first is not shrunk away.
    """
    if len(effects) < FEWEST:
        return unknown_effects()
    estimates = np.clip(np.asarray(effects, float), GRID[0], GRID[-1])
    spacing = np.interp(estimates, GRID, SPACING)
    errors = np.maximum(np.asarray(standard_errors, float), spacing)[:, None]
    likelihood = np.exp(-0.5 * np.square((estimates[:, None] - GRID) / errors)) / errors
    weights = _normal(0.1)
    for _ in range(ITERATIONS):
        posterior = likelihood * weights
        weights = np.mean(posterior / np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300), axis=0)
    novel = 1 / (len(effects) + 1)
    return EffectPrior(GRID, (1 - novel) * weights + novel * _novel(), len(effects))


def _normal(deviation: float) -> Floats:
    mass = np.exp(-0.5 * np.square(GRID / deviation)) * SPACING
    return np.asarray(mass / mass.sum())


def _novel() -> Floats:
    mass = stats.t.pdf(GRID / NOVEL_SCALE, 2) * SPACING
    return np.asarray(mass / mass.sum())
