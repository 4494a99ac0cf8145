"""Blocks of a prefix copied out of a native model's sequences and back into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from verispec import _native
from verispec.backends.contract import PrefixBlock
from verispec.backends.native_heads import HeadBlock, NativeHeads
from verispec.backends.native_prediction import PredictionEntries
from verispec.backends.native_states import NativeStates
from verispec.backends.slots import Slots
from verispec.errors import BackendError
from verispec.ops.contract import KEY_BLOCK

PREFIX_BLOCK = KEY_BLOCK
"""Positions of a saved block. A ring keeps its window and a whole pass, rounded up to key blocks: no pass displaces a
part of a key block that it completes, whatever the window."""


class SavedBlock(NamedTuple):
    """A block's keys and values, prediction entries among them, and what stands at its end: the recurrent states, and
    the hidden state that the next prediction entry is made from. None where that is not held any more."""

    keys_values: bytes
    states: bytes | None
    hidden: npt.NDArray[np.float32] | None
    heads: tuple[HeadBlock, ...] = ()
    """What the draft heads keep that were used beside it."""


@dataclass(frozen=True)
class NativePrefixes:
    """``layout`` names by value what decides a block's bits; ``context`` is in positions."""

    layout: tuple[str | int, ...]
    context: int
    cache: _native.KvCache
    slots: Slots
    states: NativeStates | None
    entries: PredictionEntries
    heads: NativeHeads

    def save(self, sequence: int, index: int) -> PrefixBlock:
        """See ``BackendAdapter.save_block``."""
        begin, end = index * PREFIX_BLOCK, (index + 1) * PREFIX_BLOCK
        if index < 0:
            raise BackendError(f"block: expected a number of at least 0, found {index}")
        self.slots.check_held(sequence, begin, end)
        states = self._states_behind(sequence, end)
        heads = self.heads.save(sequence, begin, end)
        content = self.cache.save(sequence, begin, end)
        saved = SavedBlock(content, states, self.entries.behind(sequence, end), heads)
        resumable = self.states is None or states is not None
        resumable = resumable and all(head.end is not None for head in heads)
        if self.entries.used(sequence):
            resumable = resumable and saved.hidden is not None
        size = len(saved.keys_values) + len(saved.states or b"")
        size += 0 if saved.hidden is None else saved.hidden.nbytes
        size += sum(head.nbytes for head in saved.heads)
        return PrefixBlock(self.layout, index, size, saved, resumable)

    def _states_behind(self, sequence: int, length: int) -> bytes | None:
        if self.states is None or not self.states.window(sequence).holds(length):
            return None
        return self.states.cache.save(self.states.window(sequence).place(length))

    def load(self, sequence: int, blocks: Sequence[PrefixBlock]) -> None:
        """See ``BackendAdapter.load_blocks``."""
        length = len(blocks) * PREFIX_BLOCK
        found = self.slots.state(sequence).length
        if found:
            raise BackendError(f"sequence {sequence}: expected an empty one, found {found} positions")
        if length > self.context:
            most = self.context // PREFIX_BLOCK
            raise BackendError(f"blocks: expected at most {most} (the context), found {len(blocks)}")
        saved = [self._checked(block, index) for index, block in enumerate(blocks)]
        if blocks and not blocks[-1].resumable:
            raise BackendError(
                f"block {len(blocks) - 1}: expected one to go on behind, found one without the states at its end"
            )
        self.slots.begin(sequence)
        for index, one in enumerate(saved):
            begin, end = index * PREFIX_BLOCK, (index + 1) * PREFIX_BLOCK
            self.cache.load(sequence, begin, end, one.keys_values)
            self.heads.load(sequence, begin, end, one.heads)
        if saved:
            self._load_end(sequence, length, saved[-1])
        self.slots.loaded(sequence, length)

    def _load_end(self, sequence: int, length: int, last: SavedBlock) -> None:
        if self.states is not None:
            assert last.states is not None
            self.states.cache.load(self.states.window(sequence).loaded(length), last.states)
        if last.hidden is not None:
            self.entries.note(sequence, length, last.hidden)

    def _checked(self, block: PrefixBlock, index: int) -> SavedBlock:
        if block.layout != self.layout or not isinstance(block.state, SavedBlock):
            raise BackendError(
                f"block {index}: expected one of the layout {self.layout}, found {block.layout}"
            )
        if block.index != index:
            raise BackendError(f"block {index}: expected blocks in order from 0, found block {block.index}")
        return block.state
