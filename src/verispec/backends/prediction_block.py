"""The interface of whatever drafts token by token beside a target, from its hidden states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Prediction(NamedTuple):
    """What a prediction block says of one entry. Both hold until its next use."""

    logits: npt.NDArray[np.float32]
    """``[outputs of the head]`` float32."""
    hidden: npt.NDArray[np.float32]
    """``[1, hidden_size]`` float32, after its norm: what the next step's entry is made from."""


class PredictionBlock(ABC):
    """A block that predicts from the target's hidden states token by token, and one cache of its entries a sequence:
    the one that came with a target (multi-token prediction), or an EAGLE-3 head.

    Entry p of a sequence, p >= 1, is made from the token at position p and what is known of position p - 1: the
    target's own hidden states where the token is committed (its final one, or several side by side), and further on
    the block's. Entries are opened and closed with the backend's sequence; those of a block that came with the target
    are copied into prefix blocks with it.
    """

    @property
    @abstractmethod
    def positions(self) -> int:
        """There are entries for positions below it; further on, nothing is predicted."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Width of the target's hidden states that ``absorb`` takes, side by side."""

    @abstractmethod
    def absorb(
        self, sequence: int, position: int, tokens: Sequence[int], hidden: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Writes the entries of the committed ``tokens`` from ``position`` on, over whatever was there.

        ``hidden`` is ``[tokens, columns]`` float32 of the positions before theirs, and read where it lies: contiguous
        hidden states, one or several of them side by side. Gives the last entry's own, ``[1, hidden_size]``, a copy.
        """

    @abstractmethod
    def first(self, hidden: npt.NDArray[np.float32]) -> Prediction:
        """What the head says of a hidden state that ``absorb`` gave."""

    @abstractmethod
    def step(self, sequence: int, position: int, token: int, hidden: npt.NDArray[np.float32]) -> Prediction:
        """Writes the entry of a proposed ``token`` at ``position`` from the hidden state before it, and goes on."""

    @abstractmethod
    def resume(self, sequence: int, length: int) -> npt.NDArray[np.float32] | None:
        """The target's hidden state behind the ``length`` committed positions, ``[1, hidden_size]``, when the entries
        of all of them are there: of an earlier request on the sequence, or from the blocks of a prefix."""

    @abstractmethod
    def scattered(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Logits of the head over the whole vocabulary, -inf for tokens that a reduced head does not score."""
