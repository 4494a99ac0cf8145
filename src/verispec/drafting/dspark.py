"""Strategy ``dspark``: a block in one pass, its tokens then drawn one after another, as far as they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from verispec.backends.draft_block import BlockPrediction, FollowingBlock
from verispec.drafting.dflash import DFlashDrafter, Hidden
from verispec.drafting.sources import Choose


class DSparkDrafter(DFlashDrafter):
    """A token's logits are the block's and what the token before adds to them; its confidence is what the head has
    learnt about being accepted. Where that is low, the proposal ends and nothing further is checked."""

    name = "dspark"

    def __init__(
        self,
        block: FollowingBlock,
        taps: tuple[int, ...],
        sequence: int,
        choose: Choose,
        p_min: float = 0.0,
    ) -> None:
        super().__init__(block, taps, sequence, choose, p_min)
        self._following = block

    def _judged(self, prediction: BlockPrediction, row: int, tokens: Sequence[int]) -> tuple[Hidden, float]:
        assert self._anchor is not None
        previous = tokens[-1] if tokens else self._anchor
        bias, logit = self._following.follow(previous, prediction.hidden[row])
        return prediction.logits[row] + bias, 1.0 / (1.0 + math.exp(-max(-700.0, logit)))
