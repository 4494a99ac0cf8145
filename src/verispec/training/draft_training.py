"""What a kind of drafter brings to a training run: its module, its loss, what it would have had accepted, its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from verispec.training.batches import Batch


@dataclass(frozen=True)
class Losses:
    """``total`` is minimised; ``shown`` are the parts that a log shows, in nats or as their name says."""

    total: Tensor
    shown: dict[str, float]


class DraftTraining(ABC):
    """One kind's module on one target."""

    kind: str

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """Every parameter that is learned, by its published name."""

    @abstractmethod
    def losses(self, batch: Batch, random: np.random.Generator) -> Losses:
        """Of one batch; ``random`` decides what is sampled of it."""

    @abstractmethod
    def accepted(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """[starts, widths]: whether proposal j of a draft begun at a position of the answers is the text's own token,
        and all before it are. Of greedy texts that is what a greedy round accepts."""

    @abstractmethod
    def published(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """The tensors and ``config.json`` of the head in its published layout."""
