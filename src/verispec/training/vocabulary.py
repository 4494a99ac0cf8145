"""The tokens that a head scores: those that the target's answers use most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from verispec.training.text_store import StoredText


@dataclass(frozen=True)
class DraftVocabulary:
    """``ids`` [size] int64, ascending; ``coverage`` is the share of the answers' tokens that are among them."""

    ids: Tensor
    coverage: float


def draft_vocabulary(texts: Iterable[StoredText], vocabulary: int, size: int) -> DraftVocabulary:
    """The ``size`` most frequent tokens of the answers of ``texts``, lowest id first on a tie; all of them where
    ``size`` is the ``vocabulary`` or more."""
    counts = np.zeros(vocabulary, np.int64)
    for text in texts:
        counts += np.bincount(text.tokens[text.prompt :], minlength=vocabulary)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:size])
    return DraftVocabulary(torch.from_numpy(chosen), float(counts[chosen].sum() / max(1, counts.sum())))
