"""tokens per second = tokens per pass / seconds per pass: which of the two did a change move?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from verispec.errors import OptionError
from verispec.lab.evidence_rows import LaneValues, PromptValue
from verispec.lab.statistics.block_effects import block_effects, shared_prompts
from verispec.lab.statistics.evidence import LaneNoise, combine


@dataclass(frozen=True, slots=True)
class FactorEffect:
    """One factor of the speed: its change as a log ratio (above zero: faster) with an always-valid interval.

    ``lane_deviation`` is the noise of one lane in this factor, log scale; None before there are two blocks.
    """

    name: str
    effect: float
    low: float
    high: float
    lane_deviation: float | None


@dataclass(frozen=True, slots=True)
class TwoFactors:
    """``speed.effect`` is the sum of the two others, exactly."""

    speed: FactorEffect
    tokens_per_pass: FactorEffect
    passes_per_second: FactorEffect


def two_factors(
    control_tokens: Sequence[LaneValues],
    candidate_tokens: Sequence[LaneValues],
    control_seconds: Sequence[LaneValues],
    candidate_seconds: Sequence[LaneValues],
    alpha: float = 0.05,
) -> TwoFactors:
    """Splits the change in speed of lanes for which tokens per pass and seconds per pass are both known.

    ``*_tokens`` hold tokens per pass and ``*_seconds`` seconds per pass, of the same lanes and prompts. Each interval
    is at level 1 - ``alpha`` by itself.
    """
    prompts = shared_prompts([*control_tokens, *candidate_tokens, *control_seconds, *candidate_seconds])
    if not prompts:
        raise OptionError("two factors: expected prompts that all lanes share, found none")
    control_rate = [_inverse(lane) for lane in control_seconds]
    candidate_rate = [_inverse(lane) for lane in candidate_seconds]
    arms = {
        "tokens per second": (
            _product(control_tokens, control_rate),
            _product(candidate_tokens, candidate_rate),
        ),
        "tokens per pass": (control_tokens, candidate_tokens),
        "passes per second": (control_rate, candidate_rate),
    }
    return TwoFactors(
        *(_factor(name, control, candidate, prompts, alpha) for name, (control, candidate) in arms.items())
    )


def _factor(
    name: str,
    control: Sequence[LaneValues],
    candidate: Sequence[LaneValues],
    prompts: Sequence[str],
    alpha: float,
) -> FactorEffect:
    blocks = block_effects(control, candidate, prompts)
    if not blocks:
        raise OptionError("two factors: expected a block with lanes of both arms, found none")
    evidence = combine(blocks, LaneNoise(0.0, 0))
    deviation = evidence.noise.deviation
    return FactorEffect(
        name, evidence.effect, *evidence.interval(alpha), deviation if math.isfinite(deviation) else None
    )


def _inverse(lane: LaneValues) -> LaneValues:
    return replace(lane, values=tuple(replace(one, value=1 / one.value) for one in lane.values))


def _product(first: Sequence[LaneValues], second: Sequence[LaneValues]) -> list[LaneValues]:
    by_lane = {lane.lane: {one.prompt: one.value for one in lane.values} for lane in second}
    products = []
    for lane in first:
        other = by_lane.get(lane.lane)
        if other is None:
            raise OptionError(f"two factors: expected both factors of lane {lane.lane!r}, found one")
        products.append(
            replace(
                lane,
                values=tuple(
                    PromptValue(one.prompt, one.kind, one.value * other[one.prompt])
                    for one in lane.values
                    if one.prompt in other
                ),
            )
        )
    return products
