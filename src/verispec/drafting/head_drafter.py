"""From a head to the drafter of its strategy."""

from __future__ import annotations

from verispec.backends.draft_block import DraftBlock, FollowingBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.contract import Drafter
from verispec.drafting.dflash import DFlashDrafter
from verispec.drafting.dspark import DSparkDrafter
from verispec.drafting.eagle3 import Eagle3Drafter
from verispec.drafting.sources import Choose


def make_head_drafter(
    head: PredictionBlock | DraftBlock,
    taps: tuple[int, ...],
    sequence: int,
    choose: Choose,
    p_min: float,
) -> Drafter:
    """The drafter of the strategy that ``head`` is for."""
    if isinstance(head, PredictionBlock):
        return Eagle3Drafter(head, taps, sequence, choose, p_min)
    if isinstance(head, FollowingBlock):
        return DSparkDrafter(head, taps, sequence, choose, p_min)
    return DFlashDrafter(head, taps, sequence, choose, p_min)
