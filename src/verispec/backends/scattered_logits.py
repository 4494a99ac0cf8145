"""Logits of a head over some tokens as logits over the whole vocabulary."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


class ScatteredLogits:
    """``ids``: the target's token of each output; None where output i is token i."""

    def __init__(self, ids: npt.NDArray[np.int64] | None, vocabulary: int) -> None:
        self._ids = ids
        self._whole = np.full(vocabulary, -np.inf, np.float32)

    def scatter(self, logits: Logits) -> Logits:
        """``[outputs]`` float32 to ``[vocabulary]``, -inf for tokens without an output; valid until the next call."""
        if self._ids is None and len(logits) == len(self._whole):
            return logits
        if self._ids is None:
            self._whole[: len(logits)] = logits
        else:
            self._whole[self._ids] = logits
        return self._whole
