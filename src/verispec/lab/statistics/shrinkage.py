"""What a measured effect is likely to be worth, given how past candidates turned out (empirical Bayes).

The candidate that looks best is the one the noise was kindest to. Shrinking its estimate towards what candidates have
been worth so far takes that back (B. Efron, "Tweedie's formula and selection bias", JASA 106, 2011).

True effects are taken to be a mixture: nothing at all, or a loss or a gain whose size is half-normal with one of a row
of scales. How often each happens is learned from past estimates by penalised maximum likelihood (M. Stephens, "False
discovery rates: a new deal", Biostatistics 18, 2017), losses and gains apart, because losses are far more common.
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
SCALES = 0.005 * 2.0 ** np.arange(9)
"""Sizes of losses and gains, log scale: from 0.5% to the factor 3.6."""

NOTHING_COUNT = 10.0
"""How many past candidates of no effect the learning starts with (Stephens' penalty)."""

ITERATIONS = 100


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
    """The prior when nothing is known of past candidates: half do nothing, the others anything, either way alike."""
    weights = np.full(len(_COMPONENTS), 0.5 / (len(_COMPONENTS) - 1))
    weights[0] = 0.5
    return EffectPrior(GRID, weights @ _COMPONENTS, 0)


def learn_effects(
    effects: Sequence[float] | Floats, standard_errors: Sequence[float] | Floats
) -> EffectPrior:
    """The distribution of true log effects behind past estimates, by expectation-maximisation.

    Every component keeps the weight of a small fraction of one candidate, so that a real first is not shrunk away.
    """
    if not len(effects):
        return unknown_effects()
    estimates = np.clip(np.asarray(effects, float), GRID[0], GRID[-1])
    errors = np.maximum(np.asarray(standard_errors, float), np.interp(estimates, GRID, SPACING))[:, None]
    fit = np.exp(-0.5 * np.square((estimates[:, None] - GRID) / errors)) / errors @ _COMPONENTS.T
    begun = np.full(len(_COMPONENTS), 1 / len(_COMPONENTS))
    begun[0] = NOTHING_COUNT
    weights = begun / begun.sum()
    for _ in range(ITERATIONS):
        shares = fit * weights
        counts = begun + (shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)).sum(axis=0)
        weights = counts / counts.sum()
    return EffectPrior(GRID, weights @ _COMPONENTS, len(estimates))


def _components() -> Floats:
    """No effect, then losses and gains of each scale; shape (components, grid), every row sums to 1."""
    nothing = (np.abs(GRID) == np.abs(GRID).min()).astype(float)
    sizes = np.exp(-0.5 * np.square(GRID / SCALES[:, None])) * SPACING
    rows = np.vstack([nothing, np.where(GRID < 0, sizes, 0), np.where(GRID > 0, sizes, 0)])
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


_COMPONENTS = _components()
