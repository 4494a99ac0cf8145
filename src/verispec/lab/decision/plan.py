"""What is settled before the first lane runs: how large an effect matters, and how often one may be wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from verispec.errors import OptionError
from verispec.lab.statistics.evidence import LaneNoise
from verispec.lab.statistics.multiplicity import bonferroni
from verispec.lab.statistics.shrinkage import EffectPrior, unknown_effects

UNKNOWN_NOISE = LaneNoise(0.0, 0)


@dataclass(frozen=True, slots=True)
class DecisionPlan:
    """Fixed before the data.

    margin: a change of less than this share (0.01: 1%) does not matter.
    tail_margin: how much of p10 a promotion may cost at most.
    alpha: chance that the always-valid interval ever misses the true effect.
    searched: candidates that were looked at on the data this decides on; ``alpha`` is divided by it.
    noise: noise of a lane known from past identical lanes of the SAME engine, device, suite and metric; without it
        (zero degrees of freedom) only the experiment's own lanes count.
    prior: how past candidates turned out, for the shrunken estimate.
    """

    margin: float = 0.01
    tail_margin: float = 0.03
    alpha: float = 0.05
    searched: int = 1
    noise: LaneNoise = UNKNOWN_NOISE
    prior: EffectPrior = field(default_factory=unknown_effects)

    def __post_init__(self) -> None:
        for name in ("margin", "tail_margin"):
            value = getattr(self, name)
            if not 0 < value < 0.5:
                raise OptionError(f"{name}: expected a share between 0 and 0.5, found {value!r}")
        if not 0 < self.alpha < 0.5:
            raise OptionError(f"alpha: expected a chance between 0 and 0.5, found {self.alpha!r}")
        if self.searched < 1:
            raise OptionError(f"searched: expected at least one candidate, found {self.searched!r}")

    @property
    def level(self) -> float:
        """The chance of a wrong interval that is left for one candidate."""
        return bonferroni(self.alpha, self.searched)

    @property
    def log_margin(self) -> float:
        """The margin on the log scale, the same distance up and down."""
        return math.log1p(self.margin)
