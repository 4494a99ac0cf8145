"""A bootstrap interval of the mean log ratio. It describes: with few blocks it is too narrow to decide anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from verispec.lab.statistics.block_effects import BlockEffect
from verispec.lab.statistics.t_process import Floats

RESAMPLES = 10_000


def bootstrap_interval(
    blocks: Sequence[BlockEffect], level: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Percentiles of the effect when whole blocks and whole prompts are drawn again; log scale.

    None where there is one block and one prompt: there is nothing to draw from. All blocks hold the same prompts.
    """
    ratios = np.stack([block.by_prompt for block in blocks])
    weights = np.array([block.information for block in blocks])
    if ratios.size == 1:
        return None
    draw = np.random.default_rng(seed)
    chosen = _times_drawn(len(blocks), draw) * weights
    asked = _times_drawn(ratios.shape[1], draw)
    sums = np.sum((chosen @ ratios) * asked, axis=1)
    effects = sums / (chosen.sum(axis=1) * asked.sum(axis=1))
    low, high = np.quantile(effects, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _times_drawn(count: int, draw: np.random.Generator) -> Floats:
    """How often each of ``count`` things is drawn when ``count`` are drawn with replacement; (RESAMPLES, count)."""
    drawn = draw.integers(0, count, (RESAMPLES, count)) + count * np.arange(RESAMPLES)[:, None]
    return np.bincount(drawn.ravel(), minlength=RESAMPLES * count).reshape(RESAMPLES, count).astype(float)
