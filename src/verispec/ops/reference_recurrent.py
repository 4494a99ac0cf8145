"""The recurrences of the reference operations: one row at a time, float64 inside, float32 states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from verispec.ops.contract import DeltaSpec
from verispec.ops.reference_arrays import Array, narrow

Wide = npt.NDArray[np.float64]


def sigmoid(x: Wide) -> Wide:
    return np.exp(-np.logaddexp(0, -x))


def convolve(history: Sequence[Array], taps: Array) -> Array:
    """``silu(sum of taps[:, i] * history[i])``: ``history`` is the oldest input first, ``taps`` ``[channels,
    kernel]``."""
    total = np.einsum("ic,ci->c", np.stack(history).astype(np.float64), taps.astype(np.float64))
    return narrow(total * sigmoid(total))


def delta_step(
    state: Array, qkv: Array, beta: Array, alpha: Array, decay: Array, dt_bias: Array, spec: DeltaSpec
) -> tuple[Array, Array]:
    """One row of the gated delta rule: the state after it and its result ``[value_heads * value_dim]``.

    ``state`` is ``[value_heads, key_dim, value_dim]``, ``qkv`` one row, the rest one value a value head.
    """
    q, k, v = np.split(qkv.astype(np.float64), [spec.key_width, 2 * spec.key_width])
    owners = list(spec.key_head_of)
    q = normalised(q.reshape(spec.key_heads, -1), spec.epsilon)[owners] * spec.key_dim**-0.5
    k = normalised(k.reshape(spec.key_heads, -1), spec.epsilon)[owners]
    v = v.reshape(spec.value_heads, -1)
    kept = np.exp(decay * np.logaddexp(0, alpha.astype(np.float64) + dt_bias))
    decayed = state * kept[:, None, None]
    missing = v - np.einsum("hkv,hk->hv", decayed, k)
    written = sigmoid(beta.astype(np.float64))[:, None] * missing
    after = narrow(decayed + k[:, :, None] * written[:, None, :])
    return after, narrow(np.einsum("hkv,hk->hv", after.astype(np.float64), q).reshape(-1))


def normalised(heads: Wide, epsilon: float) -> Wide:
    """Each row times the reciprocal root of its sum of squares plus ``epsilon``."""
    scaled: Wide = heads / np.sqrt(np.sum(heads * heads, axis=1, keepdims=True) + np.float32(epsilon))
    return scaled
