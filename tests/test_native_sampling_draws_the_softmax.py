"""Chosen tokens are distributed as the softmax of the processed logits, and noise as Gumbel says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verispec import _native

DRAWS = 20_000


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """Standard deviations that the chi-square statistic lies above its mean (Wilson and Hilferty)."""
    freedom = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    spread = 2.0 / (9.0 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    return weights / weights.sum()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("over", ["positions", "seeds", "choices"])
def test_draws_follow_the_softmax(temperature: float, over: str) -> None:
    logits = np.array([1.0, 0.0, -1.0, 2.0, 0.5, 1.9, -0.3, 0.0], np.float32)
    if over == "positions":
        sampler = _native.Sampler(temperature=temperature, seed=11)
        tokens = [sampler.choose(logits, position) for position in range(DRAWS)]
    else:
        name = {"seeds": "seed", "choices": "choice"}[over]
        tokens = [
            _native.Sampler(temperature=temperature, **{name: n}).choose(logits, 3) for n in range(DRAWS)
        ]
    counts = np.bincount(tokens, minlength=len(logits))
    assert abs(chi_square(counts, softmax(logits, temperature) * DRAWS)) < 4.0


@pytest.mark.parametrize("filters", [{"top_k": 3}, {"top_p": 0.75}, {"min_p": 0.3}])
def test_filtered_draws_follow_what_is_left(filters: dict[str, float]) -> None:
    logits = np.log(np.array([0.35, 0.25, 0.2, 0.1, 0.06, 0.04], np.float32)).astype(np.float32)
    sampler = _native.Sampler(seed=4, **filters)
    tokens = [sampler.choose(logits, position) for position in range(DRAWS)]
    expected = softmax(logits[:3], 1.0) * DRAWS
    assert max(tokens) == 2
    assert abs(chi_square(np.bincount(tokens, minlength=3), expected)) < 4.0


def test_neighbouring_positions_are_independent() -> None:
    logits = np.array([0.3, 0.0, -0.4, 0.1], np.float32)
    sampler = _native.Sampler(seed=9)
    tokens = np.array([sampler.choose(logits, position) for position in range(DRAWS + 1)])
    pairs = np.bincount(tokens[:-1] * 4 + tokens[1:], minlength=16)
    p = softmax(logits, 1.0)
    assert abs(chi_square(pairs, np.outer(p, p).ravel() * DRAWS)) < 4.0


def test_noise_is_gumbel_across_tokens() -> None:
    noise = np.array([_native.gumbel(1, 0, 2, token) for token in range(DRAWS)])
    uniform = np.exp(-np.exp(-noise))
    counts = np.histogram(uniform, bins=50, range=(0.0, 1.0))[0]
    assert abs(chi_square(counts, np.full(50, DRAWS / 50))) < 4.0
    assert noise.mean() == pytest.approx(0.5772, abs=0.04)
