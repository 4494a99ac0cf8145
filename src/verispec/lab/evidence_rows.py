"""What a decision is made from: one metric, as valid lanes saw it prompt by prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass

from verispec.errors import OptionError


@dataclass(frozen=True, slots=True)
class PromptValue:
    """One metric of one prompt in one lane.

    ``prompt`` is the prompt's id in its suite and ``kind`` its class. ``value`` is finite and above zero, in the
    metric's own unit (tokens per second for a rate): effects are ratios, so a value of zero has no meaning here.
    """

    prompt: str
    kind: str
    value: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise OptionError(
                f"prompt {self.prompt!r}: expected a finite value above zero, found {self.value!r}"
            )


@dataclass(frozen=True, slots=True)
class LaneValues:
    """One valid lane and one metric of it.

    ``arm`` says what ran (the control or a candidate), ``block`` which lanes ran together and are compared with each
    other, ``device`` where, and ``order`` when within the block (0 for the first; lanes at the same time share one).
    An engine of which only a lane's summary is known has one value, of the prompt ``"lane"``.
    """

    lane: str
    arm: str
    block: str
    device: str
    order: int
    values: tuple[PromptValue, ...]

    def __post_init__(self) -> None:
        prompts = [one.prompt for one in self.values]
        if not prompts:
            raise OptionError(f"lane {self.lane!r}: expected at least one prompt, found none")
        if len(set(prompts)) != len(prompts):
            twice = next(one for one in prompts if prompts.count(one) > 1)
            raise OptionError(f"lane {self.lane!r}: expected each prompt once, found {twice!r} more often")
