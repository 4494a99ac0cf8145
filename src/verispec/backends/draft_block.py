"""Heads that draft a whole block at once: the interface a backend implements for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class BlockPrediction(NamedTuple):
    """What a block drafter says of the tokens behind an anchor. Both hold until its next use."""

    logits: npt.NDArray[np.float32]
    """``[width, outputs of the head]`` float32."""
    hidden: npt.NDArray[np.float32]
    """``[width, hidden_size]`` float32, after its norm."""


class DraftBlock(ABC):
    """A head that predicts a whole block of tokens in one pass from the target's hidden states (DFlash).

    Position p of its context is made from the target's hidden states at p, several side by side. A block is one of
    ``width`` tokens behind an anchor; what it left in the cache is written over when its positions are absorbed.
    """

    @property
    @abstractmethod
    def positions(self) -> int:
        """Context and block must lie below it; further on, nothing is predicted."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Width of the hidden states that ``absorb`` takes, side by side."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Tokens of a block."""

    @abstractmethod
    def absorb(self, sequence: int, position: int, hidden: npt.NDArray[np.float32]) -> None:
        """Writes the context of committed positions from ``position`` on, over whatever was there.

        ``hidden`` is ``[positions, columns]`` float32, contiguous.
        """

    @abstractmethod
    def predict(self, sequence: int, position: int, anchor: int) -> BlockPrediction:
        """The tokens behind ``anchor``, at ``position``, from the context of all positions before it."""

    @abstractmethod
    def resume(self, sequence: int, length: int) -> bool:
        """Whether the context of exactly ``length`` committed positions is there, of an earlier request."""

    @abstractmethod
    def scattered(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """One row of logits over the whole vocabulary, -inf for tokens that a reduced head does not score."""


class FollowingBlock(DraftBlock):
    """A block drafter whose tokens follow one another, and which knows how far they can be trusted (DSpark)."""

    @abstractmethod
    def follow(self, previous: int, hidden: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float]:
        """What token ``previous`` adds to the logits of the row behind it, ``[outputs of the head]`` float32, and the
        logit of the confidence there; ``hidden`` is the row's of ``predict``, ``[hidden_size]``."""
