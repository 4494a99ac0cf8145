"""What a request gives its drafter to be made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from verispec.backends.draft_block import DraftBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.draft_text import DraftText
from verispec.drafting.suffix_corpus import SuffixCorpus

Choose = Callable[[npt.NDArray[np.float32], int], int]
"""``choose(logits, position)``: the token that the target's sampler would take at ``position`` if those were the
target's logits, ``[vocabulary]``. At a temperature over 0 it draws with the very noise that the target's choice will
be drawn with, which makes the two agree far more often than independent draws would."""


class DraftHead(NamedTuple):
    """An admitted head on the target, and the hidden states it was trained on, in its order."""

    head: PredictionBlock | DraftBlock
    taps: tuple[int, ...]


class DraftSources(Protocol):
    """Files and model parts, opened once for all requests, and what is this request's own."""

    @property
    def sequence(self) -> int:
        """The target's sequence."""

    @property
    def choose(self) -> Choose:
        """The request's sampler."""

    def corpus(self, path: Path) -> SuffixCorpus:
        """The corpus file, for the model's tokeniser."""

    def prediction_block(self, settings: Mapping[str, Any]) -> PredictionBlock:
        """The target's prediction block, with the head that ``settings`` ask for."""

    def draft_head(self, kind: str, settings: Mapping[str, Any]) -> DraftHead:
        """The artifact that ``settings`` name, admitted as ``kind`` (``eagle3``, ``dflash`` or ``dspark``)."""

    def draft_text(self, settings: Mapping[str, Any]) -> DraftText:
        """A sequence of the draft model that ``settings`` name, for this request's sequence of the target."""
