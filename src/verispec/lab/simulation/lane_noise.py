"""Where simulated lanes get their noise: three shapes with one size, that of the log's identical lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from verispec.lab.statistics.t_process import Floats

Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]
"""Draws lane noise of the wanted shape, on the log scale."""

HEAVY_DEGREES = 3


def normal_noise(deviation: float) -> Noise:
    """What the test assumes."""
    return lambda draw, shape: draw.normal(0.0, deviation, shape)


def heavy_noise(deviation: float) -> Noise:
    """Student's t with three degrees of freedom, scaled to the same standard deviation: rare lanes far off."""
    scale = deviation / np.sqrt(HEAVY_DEGREES / (HEAVY_DEGREES - 2))
    return lambda draw, shape: scale * draw.standard_t(HEAVY_DEGREES, shape)


def resampled_noise(batches: Sequence[Sequence[float]]) -> Noise:
    """What identical lanes of a log really did: drawn again from their distances to their batch's mean (log scale).

    The distances are widened for the degree of freedom that each mean took.
    """
    logs = [np.log(np.asarray(batch, float)) for batch in batches]
    residuals = np.concatenate(
        [(group - group.mean()) * np.sqrt(len(group) / (len(group) - 1)) for group in logs]
    )
    return lambda draw, shape: draw.choice(residuals, shape)


def widened_noise(noise: Noise, times: float) -> Noise:
    """The same shape with so many times its standard deviation."""
    return lambda draw, shape: times * noise(draw, shape)


def noise_around_estimate(noise: Noise, degrees: int) -> Noise:
    """The same noise when its size is known from an estimate with ``degrees`` of freedom: each experiment's is another.

    Draws of shape (lanes, experiments, pairs); lanes of one experiment share its size.
    """

    def draw_lanes(draw: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        lanes, experiments, pairs = shape
        sizes = np.sqrt(degrees / draw.chisquare(degrees, (1, experiments, 1)))
        return np.asarray(sizes * noise(draw, (lanes, experiments, pairs)))

    return draw_lanes


def pair_effects(
    noise: Noise, draw: np.random.Generator, experiments: int, pairs: int, effect: float
) -> Floats:
    """Candidate over control, log scale, shape (experiments, pairs): each pair is a block of two lanes."""
    lanes = noise(draw, (2, experiments, pairs))
    return np.asarray(effect + lanes[0] - lanes[1])
