"""Strategy ``mtp``: the target's own prediction block, applied again and again to what it gave itself."""

from __future__ import annotations

from verispec.drafting.entry_chain import EntryChainDrafter
from verispec.ops.contract import AFTER_FINAL_NORM


class MtpDrafter(EntryChainDrafter):
    """Multi-token prediction as Qwen3.5 publishes it: one block, its entries made from the target's hidden states."""

    name = "mtp"
    taps = (AFTER_FINAL_NORM,)
