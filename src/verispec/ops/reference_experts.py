"""Routing of the reference operations: which experts a row goes to, and by what shares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from verispec.ops.reference_arrays import Array, narrow


def chosen_experts(logits: Array, used: int) -> npt.NDArray[np.int64]:
    """Ids ``[rows, used]`` of the greatest logits in descending order, the lowest id first on a tie."""
    return np.argsort(-logits, axis=1, kind="stable")[:, :used]


def expert_shares(logits: Array, ids: npt.NDArray[np.int64], normalise: bool) -> Array:
    """The softmax over all of ``logits`` at ``ids``, which sums to 1 over ``ids`` when ``normalise``."""
    wide = logits.astype(np.float64)
    weights = np.exp(wide - wide.max(axis=1, keepdims=True))
    shares = np.take_along_axis(weights / weights.sum(axis=1, keepdims=True), ids, axis=1)
    return narrow(shares / shares.sum(axis=1, keepdims=True) if normalise else shares)
