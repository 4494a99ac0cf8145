"""What the number of a text decides: which prompt it answers, at what temperature, and whether it is held out.

No answer is both learned from and held out: a prompt's texts are all on one side, and none is asked for greedily twice.
"""

from __future__ import annotations

from dataclasses import dataclass

TEMPERATURES = (0.0, 0.8, 1.0)
"""Of the answers, in turn: what is drafted for later is asked for at any of them."""
SAMPLED = TEMPERATURES[1:]
HELD_OUT = 50
"""One prompt in so many is never trained on."""


@dataclass(frozen=True)
class Numbering:
    """``listed``: how many prompts there are, used over and over; None where each text invents its own."""

    listed: int | None = None

    def prompt(self, number: int) -> int:
        """The prompt's own number."""
        return number if self.listed is None else number % self.listed

    def temperature(self, number: int) -> float:
        """Of the answer. A listed prompt has each temperature once, and is only sampled from then on."""
        prompt, turn = self.prompt(number), 0 if self.listed is None else number // self.listed
        temperatures = TEMPERATURES if turn < len(TEMPERATURES) else SAMPLED
        return temperatures[(prompt + turn) % len(temperatures)]

    def held_out(self, number: int) -> bool:
        """The last of every ``HELD_OUT`` prompts; of fewer, the last one; a single one is for training."""
        every = HELD_OUT if self.listed is None else min(HELD_OUT, self.listed)
        return every > 1 and self.prompt(number) % every == every - 1
