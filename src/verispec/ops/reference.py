"""The operations in numpy: eager, float32 between operations and float64 inside them. The oracle of every
test.

Slow on purpose and simple on purpose. Nothing exact is promised here: native results are held against these
within tolerances. What the contract fixes exactly (int8 activations, float16 keys and values, which keys a
row sees) is done exactly here too, so that the tolerances can be tight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from verispec.ops.contract import AttentionSpec, ConvolutionSpec, DeltaSpec, Operations, RopeSpec
from verispec.ops.reference_arrays import Array, Matrix, Weights, narrow, rounded_activations
from verispec.ops.reference_experts import chosen_experts, expert_shares
from verispec.ops.reference_recurrent import convolve, delta_step, sigmoid

HEAD_CHUNK = 8192
"""Output rows of a matrix held in float64 at a time."""


@dataclass
class Cache:
    """What every layer and sequence slot keeps, by position: keys and values, inputs of convolutions, and the
    delta rule's state AFTER the position, so that a pass may go back to any of them.

    ``dtype``, of keys and values, is float16 by the contract; comparisons with peers that keep float32 set it
    to that.
    """

    keys: dict[tuple[int, int, int], npt.NDArray[np.floating]] = field(default_factory=dict)
    values: dict[tuple[int, int, int], npt.NDArray[np.floating]] = field(default_factory=dict)
    convolved: dict[tuple[int, int, int], Array] = field(default_factory=dict)
    states: dict[tuple[int, int, int], Array] = field(default_factory=dict)
    dtype: type[np.floating] = np.float16


@dataclass(frozen=True)
class PassInputs:
    """What one pass evaluates: token, position and slot of each row, the rows whose output is wanted, and the
    hidden state each row brings when the graph asks for one (``[rows, width]``).

    Rows of one sequence stand in order of position.
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    slots: Sequence[int]
    outputs: Sequence[int]
    hidden: Array | None = None


def rotation(spec: RopeSpec, positions: Sequence[int]) -> tuple[Array, Array]:
    """Cosines and sines ``[rows, pairs]`` of a rotary embedding."""
    angles = np.outer(np.asarray(positions, np.float64), np.asarray(spec.inverse_frequencies, np.float64))
    return narrow(np.cos(angles) * spec.magnitude), narrow(np.sin(angles) * spec.magnitude)


class ReferenceOperations(Operations[Array]):
    """One pass over ``inputs``, evaluated as the graph asks. Results: ``argmax``, ``logits`` and
    ``hidden``."""

    def __init__(self, weights: Weights, cache: Cache, inputs: PassInputs) -> None:
        self.argmax: list[int] = []
        self.logits: Array | None = None
        self.hidden: dict[int, Array] = {}
        self._weights = weights
        self._cache = cache
        self._inputs = inputs

    def embedding(self, table: str, scale: float) -> Array:
        rows = self._weights[table].values[np.asarray(self._inputs.tokens, np.int64)]
        return rows * np.float32(scale)

    def hidden_input(self, width: int) -> Array:
        given = self._inputs.hidden
        shape = (len(self._inputs.tokens), width)
        if given is None or given.shape != shape:
            found = "nothing" if given is None else f"shape {given.shape}"
            raise ValueError(f"hidden states of the pass: expected shape {shape}, found {found}")
        return given

    def linear(
        self, x: Array, weights: Sequence[str], biases: Sequence[str | None] = ()
    ) -> tuple[Array, ...]:
        names = zip(weights, biases or [None] * len(weights), strict=True)
        return tuple(self._linear(x, weight, bias) for weight, bias in names)

    def _linear(self, x: Array, weight: str, bias: str | None) -> Array:
        matrix = self._weights[weight]
        inputs = self._seen(x, matrix)
        outputs = matrix.values.shape[0]
        result = np.empty((x.shape[0], outputs), np.float64)
        for begin in range(0, outputs, HEAD_CHUNK):
            part = slice(begin, min(begin + HEAD_CHUNK, outputs))
            result[:, part] = inputs @ matrix.values[part].astype(np.float64).T
        if bias is not None:
            result += self._weights[bias].values[0]
        return narrow(result)

    def _seen(self, x: Array, matrix: Matrix) -> npt.NDArray[np.float64]:
        """Activations as ``matrix`` meets them."""
        return rounded_activations(x) if matrix.quantised else x.astype(np.float64)

    def rms_norm(self, x: Array, weight: str, epsilon: float, groups: int = 1) -> Array:
        parts = x.astype(np.float64).reshape(x.shape[0], groups, -1)
        mean = np.mean(parts * parts, axis=2, keepdims=True)
        scaled = parts / np.sqrt(mean + np.float32(epsilon)) * self._weights[weight].values[0]
        return narrow(scaled.reshape(x.shape))

    def rope(self, x: Array, heads: int, spec: RopeSpec) -> Array:
        cos, sin = (table[:, None, :].astype(np.float64) for table in rotation(spec, self._inputs.positions))
        result = x.astype(np.float64).reshape(x.shape[0], heads, -1)
        if spec.interleaved:
            first, second = slice(0, 2 * spec.pairs, 2), slice(1, 2 * spec.pairs, 2)
        else:
            first, second = slice(0, spec.pairs), slice(spec.pairs, 2 * spec.pairs)
        a, b = result[:, :, first].copy(), result[:, :, second].copy()
        result[:, :, first] = a * cos - b * sin
        result[:, :, second] = a * sin + b * cos
        return narrow(result.reshape(x.shape))

    def attention(self, q: Array, k: Array, v: Array, spec: AttentionSpec) -> Array:
        self.store(k, v, spec)
        return np.stack([self._attend(q[row], row, spec) for row in range(q.shape[0])]).reshape(q.shape)

    def store(self, k: Array, v: Array, spec: AttentionSpec) -> None:
        for row in range(k.shape[0]):
            key = self._address(spec.layer, row)
            self._cache.keys[key] = k[row].reshape(spec.kv_heads, -1).astype(self._cache.dtype)
            self._cache.values[key] = v[row].reshape(spec.kv_heads, -1).astype(self._cache.dtype)

    def _address(self, layer: int, row: int) -> tuple[int, int, int]:
        return layer, self._inputs.slots[row], self._inputs.positions[row]

    def _attend(self, q: Array, row: int, spec: AttentionSpec) -> Array:
        layer, slot, position = self._address(spec.layer, row)
        oldest = max(spec.first, position - spec.window + 1) if spec.window else spec.first
        newest = self._block_end(slot) if spec.block else position
        seen = [(layer, slot, p) for p in range(oldest, newest + 1)]
        keys = np.stack([self._cache.keys[a] for a in seen]).astype(np.float64)
        values = np.stack([self._cache.values[a] for a in seen]).astype(np.float64)
        query = q.astype(np.float64).reshape(spec.kv_heads, spec.heads // spec.kv_heads, -1)
        scores = np.einsum("hgd,khd->hgk", query * np.float32(spec.scale), keys)
        if spec.softcap:
            scores = spec.softcap * np.tanh(scores / spec.softcap)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        return narrow(np.einsum("hgk,khd->hgd", weights, values).reshape(-1))

    def _block_end(self, slot: int) -> int:
        """The greatest position that the sequence has in the pass."""
        places = zip(self._inputs.slots, self._inputs.positions, strict=True)
        return max(position for own, position in places if own == slot)

    def convolution(self, x: Array, weight: str, spec: ConvolutionSpec) -> Array:
        taps = self._weights[weight].values
        results = []
        for row, entering in enumerate(x):
            layer, slot, position = self._address(spec.layer, row)
            self._cache.convolved[layer, slot, position] = entering.copy()
            before = range(position - spec.kernel + 1, position + 1)
            nothing = np.zeros(spec.channels, np.float32)
            history = [self._cache.convolved[layer, slot, p] if p >= 0 else nothing for p in before]
            results.append(convolve(history, taps))
        return np.stack(results)

    def delta_rule(
        self, qkv: Array, beta: Array, alpha: Array, decay: str, dt_bias: str, spec: DeltaSpec
    ) -> Array:
        vectors = (self._weights[decay].values[0], self._weights[dt_bias].values[0])
        results = []
        for row in range(qkv.shape[0]):
            layer, slot, position = self._address(spec.layer, row)
            if position:
                state = self._cache.states[layer, slot, position - 1]
            else:
                state = np.zeros((spec.value_heads, spec.key_dim, spec.value_dim), np.float32)
            after, result = delta_step(state, qkv[row], beta[row], alpha[row], *vectors, spec)
            self._cache.states[layer, slot, position] = after
            results.append(result)
        return np.stack(results)

    def sigmoid_gate(self, x: Array, gate: Array) -> Array:
        shares = sigmoid(gate.astype(np.float64))
        return narrow(x.astype(np.float64) * np.repeat(shares, x.shape[1] // gate.shape[1], axis=1))

    def split(self, x: Array, widths: Sequence[int], groups: int = 1) -> tuple[Array, ...]:
        rows = x.shape[0]
        pieces = np.split(x.reshape(rows, groups, sum(widths)), np.cumsum(widths)[:-1], axis=2)
        return tuple(piece.reshape(rows, -1) for piece in pieces)

    def concat(self, parts: Sequence[Array]) -> Array:
        return np.concatenate(parts, axis=1)

    def route(self, logits: Array, used: int, normalise: bool) -> tuple[Array, Array]:
        ids = chosen_experts(logits, used)
        return ids.astype(np.float32), expert_shares(logits, ids, normalise)

    def expert_linear(self, x: Array, ids: Array, weight: str) -> Array:
        matrix = self._weights[weight]
        rows, used = ids.shape
        inputs = self._seen(x, matrix).reshape(rows, -1, matrix.values.shape[2])
        slots = np.broadcast_to(inputs, (rows, used, inputs.shape[2]))
        result = np.empty((rows, used, matrix.values.shape[1]), np.float64)
        for expert in np.unique(ids).astype(np.int64):
            chosen = ids == expert
            result[chosen] = slots[chosen] @ matrix.values[expert].astype(np.float64).T
        return narrow(result.reshape(rows, -1))

    def expert_sum(self, x: Array, shares: Array) -> Array:
        slots = x.astype(np.float64).reshape(*shares.shape, -1)
        return narrow(np.einsum("rsw,rs->rw", slots, shares.astype(np.float64)))

    def swiglu(self, gate: Array, up: Array) -> Array:
        wide = gate.astype(np.float64)
        return narrow(wide / (1 + np.exp(-wide)) * up)

    def geglu(self, gate: Array, up: Array) -> Array:
        wide = gate.astype(np.float64)
        inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
        return narrow(0.5 * wide * (1 + np.tanh(inner)) * up)

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def scale(self, x: Array, factor: float) -> Array:
        return x * np.float32(factor)

    def select_outputs(self, x: Array) -> Array:
        return x[np.asarray(self._inputs.outputs, np.int64)]

    def tap(self, x: Array, layer: int) -> None:
        self.hidden[layer] = x.copy()

    def output_head(self, x: Array, weight: str, softcap: float = 0.0, bias: str | None = None) -> None:
        (logits,) = self.linear(x, [weight], [bias])
        self.argmax = [int(i) for i in logits.argmax(axis=1)]
        if softcap:
            logits = narrow(softcap * np.tanh(logits.astype(np.float64) / softcap))
        self.logits = logits
