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
    entry is made from."""

    key: str
    keys_values: bytes
    end: npt.NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        return len(self.keys_values) + self.end.nbytes


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

    def save(self, sequence: int, begin: int, end: int) -> tuple[HeadBlock, ...] | None:
        """What the heads used in the sequence keep of positions ``[begin, end)``, a block just completed; None when one
        of them could not go on behind it."""
        blocks = []
        for parts, head in self._opened:
            if not head.used(sequence):
                continue
            behind = head.block_end(sequence, end)
            if behind is None:
                return None
            within = end <= parts.cache.positions
            content = parts.cache.save(sequence, begin, end) if within else b""
            blocks.append(HeadBlock(parts.key, content, behind))
        return tuple(blocks)

    def load(self, sequence: int, begin: int, end: int, blocks: tuple[HeadBlock, ...]) -> None:
        """Puts back what ``save`` gave."""
        for parts, head in self._opened:
            for block in blocks:
                if block.key == parts.key:
                    if block.keys_values:
                        parts.cache.load(sequence, begin, end, block.keys_values)
                    head.loaded(sequence, end, block.end)

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
