"""The evidence of an experiment so far: an effect, what is known of it, and what the noise looks like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from verispec.lab.statistics.block_effects import BlockEffect
from verispec.lab.statistics.t_process import as_float, half_width, log_e_value


@dataclass(frozen=True, slots=True)
class LaneNoise:
    """How much identical lanes differ: the sum of squares around their own means (log scale), and its freedom."""

    squares: float
    degrees: int

    @property
    def deviation(self) -> float:
        """Standard deviation of one lane on the log scale, so nearly its coefficient of variation."""
        return math.sqrt(self.squares / self.degrees) if self.degrees else math.inf


@dataclass(frozen=True, slots=True)
class Evidence:
    """``effect`` on the log scale, with ``information`` behind it and the noise of a lane."""

    effect: float
    information: float
    noise: LaneNoise

    @property
    def standard_error(self) -> float:
        return self.noise.deviation / math.sqrt(self.information)

    def interval(self, alpha: float) -> tuple[float, float]:
        """The always-valid interval of level 1 - ``alpha``, on the log scale."""
        width = as_float(half_width(self.information, self.noise.squares, self.noise.degrees, alpha))
        return self.effect - width, self.effect + width

    def e_value(self, tested: float = 0.0) -> float:
        """The evidence against "the effect is ``tested``" (log scale); above 1/alpha it is rejected at alpha."""
        log = log_e_value(self.effect, tested, self.information, self.noise.squares, self.noise.degrees)
        return math.exp(min(as_float(log), 700.0))


def combine(blocks: Sequence[BlockEffect], known: LaneNoise) -> Evidence:
    """The blocks' effects weighted by their information; ``known`` is noise seen elsewhere (none: zero degrees)."""
    information = sum(block.information for block in blocks)
    effect = sum(block.information * block.effect for block in blocks) / information
    own = own_noise(blocks)
    return Evidence(effect, information, LaneNoise(own.squares + known.squares, own.degrees + known.degrees))


def own_noise(blocks: Sequence[BlockEffect]) -> LaneNoise:
    """The noise that the experiment itself shows: between its blocks and among lanes of one arm."""
    information = sum(block.information for block in blocks)
    effect = sum(block.information * block.effect for block in blocks) / information
    between = sum(block.information * (block.effect - effect) ** 2 for block in blocks)
    return LaneNoise(
        between + sum(block.squares for block in blocks),
        len(blocks) - 1 + sum(block.degrees for block in blocks),
    )
