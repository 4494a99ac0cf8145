"""The draft heads that one native backend has opened, whatever their kinds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from verispec.artifacts.draft_file import DraftFile
from verispec.backends.native_dflash import NativeDFlash, NativeDSpark
from verispec.backends.native_draft import HeadParts, TargetParts, load_head
from verispec.backends.native_eagle3 import NativeEagle3
from verispec.errors import BackendError
from verispec.models.draft_hyperparameters import DraftHyperparameters

NativeHead = NativeEagle3 | NativeDFlash


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
