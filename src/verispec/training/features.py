"""From the target's hidden states to a head's width, learned where all of their columns have the same size.

Columns of a target's hidden states differ a thousandfold, and a few large ones hardly change from token to token: a
matrix that is learned on them as they are learns those few first. Here each is divided by its root mean square, and
what is published multiplies the states as they are. How much of the next token a linear map of them tells is known
before the first step: a head may begin with that map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from verispec.training.text_store import StoredText

TEXTS = 150
"""Texts that statistics are taken from: some fifty thousand tokens."""
RIDGE = 1e-3
"""What is added to the products' diagonal, of its mean."""
LEAST = 1e-3
"""Of the final norm's greatest weight: columns with less are not fitted."""
SCALES = ".scales"


@dataclass(frozen=True)
class FeatureStatistics:
    """``scales`` [columns] float32: the root mean square of the hidden states' columns, side by side. ``ahead`` [width,
    columns] float32: of all linear maps the one that best tells from a position's hidden states, divided by the scales,
    the state after the next position's final norm, before that norm's weight."""

    scales: Tensor
    ahead: Tensor


class FeatureProjection(nn.Module):
    """``scales``: see ``FeatureStatistics``."""

    scales: Tensor

    def __init__(self, scales: Tensor, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, len(scales)))
        self.register_buffer("scales", scales)

    def forward(self, features: Tensor) -> Tensor:
        """[..., columns] to [..., width]"""
        return functional.linear(features / self.scales, self.weight)


def feature_statistics(texts: Sequence[StoredText], final_norm: Tensor) -> FeatureStatistics:
    """Of the first of ``texts``, whose last tap is the state after the final norm, of weight ``final_norm``. A text's
    first token is left out: what a target writes there is hundreds of times larger, and says nothing."""
    pairs = [_pairs(text) for text in texts[:TEXTS]]
    squares = torch.stack([features.square().mean(0) for features, _ in pairs]).mean(0)
    scales = torch.where(squares > 0, squares, 1.0).sqrt()
    weight = torch.where(final_norm.abs() > LEAST * final_norm.abs().max(), final_norm, torch.inf)
    products = torch.zeros(len(scales), len(scales))
    towards = torch.zeros(len(scales), len(final_norm))
    for features, following in pairs:
        scaled = features / scales
        products += scaled.T @ scaled
        towards += scaled.T @ (following / weight)
    products += RIDGE * products.diagonal().mean() * torch.eye(len(scales))
    return FeatureStatistics(scales, torch.linalg.solve(products, towards).T.contiguous())


def _pairs(text: StoredText) -> tuple[Tensor, Tensor]:
    """The hidden states of positions whose next but one token is the answer's [positions, columns], and the final state
    of the position behind each [positions, width]; float32."""
    hidden = torch.from_numpy(np.array(text.hidden[max(1, text.prompt - 2) :], np.float32))
    return hidden[:-1, :-1].flatten(1), hidden[1:, -1]


def published_parameters(module: nn.Module) -> dict[str, npt.NDArray[Any]]:
    """The parameters by their published names, as arrays; projections take hidden states as the target gives them."""
    values = {name: value.detach() for name, value in module.state_dict().items()}
    for name in [name for name in values if name.endswith(SCALES)]:
        scales = values.pop(name)
        weight = name.removesuffix(SCALES) + ".weight"
        values[weight] = values[weight] / scales
    return {name: value.numpy() for name, value in values.items()}
