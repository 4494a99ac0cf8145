"""Rotary frequencies against the published formulas in float64, for every scaling scheme."""

from __future__ import annotations

import math
from decimal import getcontext

import numpy as np
import pytest

from verispec.models.rope import RopeParameters, rope_spec

DIMENSIONS = 64


def plain(base: float, dimensions: int = DIMENSIONS) -> np.ndarray:
    return base ** (-np.arange(0, dimensions, 2) / dimensions)


@pytest.mark.parametrize("base", [10000.0, 100000.0, 1e6, 1.5])
def test_unscaled(base: float) -> None:
    spec = rope_spec(RopeParameters(DIMENSIONS, base, interleaved=True))
    assert spec.pairs == 32
    assert spec.interleaved
    assert spec.magnitude == 1.0
    assert spec.inverse_frequencies[0] == 1.0
    assert np.allclose(spec.inverse_frequencies, plain(base), rtol=1e-14)


def test_powers_that_are_exact_stay_exact() -> None:
    """base 2^64 over 64 dimensions turns pair i by 2^-2i."""
    spec = rope_spec(RopeParameters(DIMENSIONS, 2.0**64, interleaved=False))
    assert spec.inverse_frequencies == tuple(2.0 ** (-2 * i) for i in range(32))


def test_linear_divides_positions() -> None:
    spec = rope_spec(RopeParameters(DIMENSIONS, 1e4, False, scaling="linear", factor=8.0))
    assert np.allclose(spec.inverse_frequencies, plain(1e4) / 8, rtol=1e-14)
    assert spec.magnitude == 1.0


def test_llama3_factors_divide_frequencies() -> None:
    """The scheme of Llama 3.1 as its config states it, which files hold as one factor a pair."""
    factor, low, high, original = 8.0, 1.0, 4.0, 8192
    base = plain(5e5)
    wavelength = 2 * math.pi / base
    smooth = (original / wavelength - low) / (high - low)
    scaled = np.where(smooth < 0, base / factor, (1 - smooth) * base / factor + smooth * base)
    expected = np.where(smooth > 1, base, scaled)
    factors = (base / expected).astype(np.float32).tolist()
    spec = rope_spec(RopeParameters(DIMENSIONS, 5e5, True), factors)
    assert np.allclose(spec.inverse_frequencies, expected, rtol=1e-6)


def test_yarn_mixes_by_how_fast_a_pair_turns() -> None:
    """As YaRN's own code: fast pairs keep their frequency, slow ones are divided, a ramp between."""
    base, factor, original = 1e6, 4.0, 32768
    parameters = RopeParameters(
        DIMENSIONS, base, False, scaling="yarn", factor=factor, original_context=original
    )

    def pair_with(turns: float) -> float:
        return DIMENSIONS * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = math.floor(pair_with(32.0)), math.ceil(pair_with(1.0))
    keep = 1 - np.clip((np.arange(32) - low) / (high - low), 0, 1)
    expected = plain(base) * (keep + (1 - keep) / factor)
    spec = rope_spec(parameters)
    assert 0 < keep[low + 1] < 1
    assert np.allclose(spec.inverse_frequencies, expected, rtol=1e-14)
    assert spec.magnitude == pytest.approx(0.1 * math.log(factor) + 1, rel=1e-15)


def test_yarn_magnitude_can_be_the_files_own() -> None:
    common = {"scaling": "yarn", "factor": 40.0, "original_context": 4096}
    cancelled = RopeParameters(DIMENSIONS, 1e4, False, log_multiplier=1.0, **common)  # type: ignore[arg-type]
    assert rope_spec(cancelled).magnitude == 1.0
    doubled = RopeParameters(DIMENSIONS, 1e4, False, attention_factor=2.0, **common)  # type: ignore[arg-type]
    assert rope_spec(doubled).magnitude == pytest.approx(2 * (1 + 0.1 * math.log(40)), rel=1e-15)


def test_the_callers_decimal_precision_changes_nothing() -> None:
    parameters = RopeParameters(DIMENSIONS, 1e5, False)
    expected = rope_spec(parameters)
    before = getcontext().prec
    try:
        getcontext().prec = 5
        assert rope_spec(parameters) == expected
    finally:
        getcontext().prec = before


def test_a_wrong_number_of_factors_is_refused() -> None:
    with pytest.raises(ValueError, match="3 frequency factors for 32 pairs"):
        rope_spec(RopeParameters(DIMENSIONS, 1e4, True), [1.0, 2.0, 3.0])
