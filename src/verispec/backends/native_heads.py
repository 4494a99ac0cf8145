"""The draft heads that one native backend has opened, whatever their kinds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from verispec.artifacts.draft_file import DraftFile
from verispec.backends.native_dflash import NativeDFlash, NativeDSpark
from verispec.backends.native_draft import HeadParts, TargetParts, load_head
from verispec.backends.native_eagle3 import NativeEagle3
from verispec.errors import BackendError
from verispec.models.draft_hyperparameters import DraftHyperparameters

NativeHead = NativeEagle3 | NativeDFlash


class HeadBlock(NamedTuple):
    """A prefix block of one head, named by its digest: keys and values (nothing behind its context), and what its next
    entry is made from, None where that is not held any more."""

    key: str
    keys_values: bytes
    end: npt.NDArray[np.float32] | None

    @property
    def nbytes(self) -> int:
        return len(self.keys_values) + (0 if self.end is None else self.end.nbytes)


class NativeHeads:
    """A sequence that is closed is closed for all of them."""

    def __init__(self, target: TargetParts) -> None:
        self._target: TargetParts | None = target
        self._opened: list[tuple[HeadParts, NativeHead]] = []

    def open(self, file: DraftFile, draft: DraftHyperparameters) -> NativeHead:
        """See ``BackendAdapter.draft_head``."""
        if self._target is None:
            raise BackendError("backend: expected an open one, found a closed one")
        parts = load_head(file, draft, self._target)
        head = make_head(parts, file.draft_ids)
        self._opened.append((parts, head))
        return head

    def save(self, sequence: int, begin: int, end: int) -> tuple[HeadBlock, ...]:
        """What the heads used in the sequence keep of positions ``[begin, end)``. BackendError when one of them has
        not got that far: a block without its part would be a hole in what later ones go on from."""
        blocks = []
        for parts, head in self._opened:
            if not head.used(sequence):
                continue
            if head.length(sequence) < end:
                found = head.length(sequence)
                raise BackendError(
                    f"block: expected {end} positions in the draft head's cache, found {found}"
                )
            within = end <= parts.cache.positions
            content = parts.cache.save(sequence, begin, end) if within else b""
            blocks.append(HeadBlock(parts.key, content, head.block_end(sequence, end)))
        return tuple(blocks)

    def load(self, sequence: int, begin: int, end: int, blocks: tuple[HeadBlock, ...]) -> None:
        """Puts back what ``save`` gave."""
        for parts, head in self._opened:
            for block in blocks:
                if block.key == parts.key:
                    if block.keys_values:
                        parts.cache.load(sequence, begin, end, block.keys_values)
                    if block.end is not None:
                        head.loaded(sequence, end, block.end)

    def overwritten(self, sequence: int, length: int) -> None:
        """Other tokens may come behind ``length`` positions: what is kept of more is no longer theirs."""
        for _, head in self._opened:
            head.overwritten(sequence, length)

    def forget(self, sequence: int) -> None:
        """Gives back what the heads keep of ``sequence``."""
        for parts, head in self._opened:
            head.forget(sequence)
            parts.cache.discard_slot(sequence)

    def close(self) -> None:
        """Frees the caches, and the weights once nobody drafts with them."""
        for parts, _ in self._opened:
            parts.cache.close()
        self._opened.clear()
        self._target = None


def make_head(parts: HeadParts, ids: npt.NDArray[np.int64] | None) -> NativeHead:
    """The head of ``parts`` by its kind; ``ids``: the target's token of each output, None where output i is token i."""
    if parts.draft.kind == "eagle3":
        return NativeEagle3(parts, ids)
    return NativeDSpark(parts, ids) if parts.draft.kind == "dspark" else NativeDFlash(parts, ids)
