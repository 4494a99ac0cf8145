"""Rotary frequencies: from a file's base and scaling scheme to the angle each pair turns per position.

Formulas are those of ggml's rope (YaRN included), taken in more than float64 and rounded once. The
logarithms and powers are ``decimal``'s, which are the same on every machine, so that angles are too
(contract C3); libm's are not.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from verispec.ops.contract import RopeSpec

Scaling = Literal["none", "linear", "yarn"]

CONTEXT = decimal.Context(prec=40, rounding=decimal.ROUND_HALF_EVEN)
PI = Decimal("3.14159265358979323846264338327950288419717")
SMALLEST_RAMP = Decimal("0.001")


@dataclass(frozen=True)
class RopeParameters:
    """How a layer's queries and keys are rotated."""

    dimensions: int
    """Rotated dimensions of a head; even."""
    base: float
    interleaved: bool
    scaling: Scaling = "none"
    factor: float = 1.0
    """Context extension: linear and YaRN scaling divide positions by it."""
    original_context: int = 0
    """Positions the model was trained on before scaling (YaRN)."""
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    extrapolation: float = 1.0
    """YaRN's mix of unscaled frequencies where they turn fast."""
    log_multiplier: float = 0.0
    """YaRN's own magnitude is divided by the one of this multiplier, if not 0 (DeepSeek's
    ``mscale_all_dim``)."""
    attention_factor: float = 1.0
    """A factor of the file's own on cosine and sine."""


def rope_spec(parameters: RopeParameters, frequency_factors: Sequence[float] = ()) -> RopeSpec:
    """The rotation that ``parameters`` describe.

    ``frequency_factors``, one a pair, divide the frequencies first (the ``rope_freqs`` tensor, in which
    Llama 3 files hold their scaling).
    """
    pairs = parameters.dimensions // 2
    factors = [Decimal(f) for f in frequency_factors] or [Decimal(1)] * pairs
    if len(factors) != pairs:
        raise ValueError(f"{len(factors)} frequency factors for {pairs} pairs")
    with decimal.localcontext(CONTEXT):
        step = CONTEXT.ln(Decimal(parameters.base)) * -2 / parameters.dimensions
        plain = [CONTEXT.exp(step * i) / factor for i, factor in enumerate(factors)]
        shares = _shares(parameters, pairs)
        scaled = [frequency * share for frequency, share in zip(plain, shares, strict=True)]
        magnitude = Decimal(parameters.attention_factor) * _yarn_magnitude(parameters)
        return RopeSpec(tuple(float(f) for f in scaled), float(magnitude), parameters.interleaved)


def _shares(parameters: RopeParameters, pairs: int) -> list[Decimal]:
    """What scaling leaves of each pair's frequency."""
    if parameters.scaling == "none":
        return [Decimal(1)] * pairs
    interpolated = 1 / Decimal(parameters.factor)
    if parameters.scaling == "linear" or not parameters.extrapolation:
        return [interpolated] * pairs
    low = max(0, math.floor(_correction_dimension(parameters, parameters.beta_fast)))
    high = min(parameters.dimensions - 1, math.ceil(_correction_dimension(parameters, parameters.beta_slow)))
    span = max(SMALLEST_RAMP, Decimal(high - low))
    shares = []
    for pair in range(pairs):
        mix = (1 - min(Decimal(1), max(Decimal(0), (pair - low) / span))) * Decimal(parameters.extrapolation)
        shares.append(interpolated * (1 - mix) + mix)
    return shares


def _correction_dimension(parameters: RopeParameters, turns: float) -> Decimal:
    """The pair that makes ``turns`` full turns over the original context."""
    ratio = Decimal(parameters.original_context) / (Decimal(turns) * 2 * PI)
    return parameters.dimensions * CONTEXT.ln(ratio) / (2 * CONTEXT.ln(Decimal(parameters.base)))


def _yarn_magnitude(parameters: RopeParameters) -> Decimal:
    if parameters.scaling != "yarn" or not parameters.extrapolation or parameters.factor <= 1:
        return Decimal(1)
    log = CONTEXT.ln(Decimal(parameters.factor)) / 10
    return (1 + log) / (1 + log * Decimal(parameters.log_multiplier))
