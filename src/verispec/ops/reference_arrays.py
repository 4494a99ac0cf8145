"""Arrays and weights of the reference operations, and how activations meet quantised weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from verispec.ops.contract import QUANT_BLOCK

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Matrix:
    """A dequantised weight ``[outputs, inputs]``, or ``[experts, outputs, inputs]``.

    ``quantised`` says whether it meets rounded activations.
    """

    values: Array
    quantised: bool


Weights = Mapping[str, Matrix]
"""Every weight by name; vectors (norms, biases) are matrices of one row."""


def narrow(wide: npt.NDArray[np.float64]) -> Array:
    """The float32 nearest to each value."""
    return wide.astype(np.float32)


def quantise_activations(x: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """Int8 values ``[rows, k]`` and scales ``[rows, k / 32]`` of activations ``[rows, k]`` by the contract's
    rule."""
    blocks = x.reshape(x.shape[0], -1, QUANT_BLOCK)
    amax = np.abs(blocks).max(axis=2)
    inverse = np.divide(np.float32(127), amax, out=np.zeros_like(amax), where=amax != 0)
    values = np.rint(blocks * inverse[:, :, None]).astype(np.int8)
    return values.reshape(x.shape), amax / np.float32(127)


def rounded_activations(x: Array) -> npt.NDArray[np.float64]:
    """Activations as a quantised weight sees them: int8 values times their block's scale."""
    values, scales = quantise_activations(x)
    return values.astype(np.float64) * np.repeat(scales.astype(np.float64), QUANT_BLOCK, axis=1)
