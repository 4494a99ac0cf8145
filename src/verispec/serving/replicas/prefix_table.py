"""Which replica has seen which beginnings of prompts: a bounded memory of blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

MAX_BLOCKS = 1 << 16
"""Blocks remembered, over all replicas; about 10 MB."""


class PrefixTable:
    """Chained hashes of blocks (see ``prefix_key``), and the replicas that were given a prompt which begins so.

    It says what a replica was given, not what its cache still holds: a wrong guess costs time and changes no text.
    """

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._max_blocks = max_blocks
        self._holders: OrderedDict[bytes, int] = OrderedDict()
        """Bit ``i``: replica ``i``. The block used last is at the end."""

    def __len__(self) -> int:
        return len(self._holders)

    def match(self, blocks: Sequence[bytes]) -> dict[int, int]:
        """How many leading ``blocks`` each replica has seen; those that have seen none are left out."""
        found: dict[int, int] = {}
        seen = -1  # every replica
        for count, block in enumerate(blocks, 1):
            seen &= self._holders.get(block, 0)
            if not seen:
                break
            found |= dict.fromkeys(_bits(seen), count)
        return found

    def note(self, blocks: Sequence[bytes], replica: int) -> None:
        """``replica`` gets a prompt of these ``blocks``. The blocks used longest ago are forgotten past the bound."""
        for block in reversed(blocks):  # so that of one prompt the last block is the first to be forgotten
            self._holders[block] = self._holders.get(block, 0) | 1 << replica
            self._holders.move_to_end(block)
        while len(self._holders) > self._max_blocks:
            self._holders.popitem(last=False)

    def forget(self, replica: int) -> None:
        """``replica`` has lost its cache."""
        for block, holders in list(self._holders.items()):
            left = holders & ~(1 << replica)
            if left:
                self._holders[block] = left
            else:
                del self._holders[block]


def _bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]
