"""Strategy ``eagle3``: a head trained beside the target, fed with the hidden states of three of its layers."""

from __future__ import annotations

from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.entry_chain import EntryChainDrafter
from verispec.drafting.sources import Choose


class Eagle3Drafter(EntryChainDrafter):
    """EAGLE-3: a first step from the target's hidden states, further ones from the head's own, before its norm."""

    name = "eagle3"

    def __init__(
        self,
        head: PredictionBlock,
        taps: tuple[int, ...],
        sequence: int,
        choose: Choose,
        p_min: float = 0.0,
    ) -> None:
        """``taps``: the hidden states that the head was trained on, in its order."""
        super().__init__(head, sequence, choose, p_min)
        self.taps = taps
