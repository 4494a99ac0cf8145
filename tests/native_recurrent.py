"""A little recurrent layer in a native program, and the same in plain float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from native_graphs import Floats, Ids, ids, pack, pool, rows_of
from verispec import _native


@dataclass(frozen=True)
class Layer:
    """Sizes of a convolution and a gated delta rule behind it."""

    key_heads: int = 2
    value_heads: int = 4
    key_dim: int = 16
    value_dim: int = 24
    kernel: int = 4
    grouped: bool = False

    @property
    def channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def floats(self) -> tuple[int, int]:
        """What a place of the state cache keeps of it."""
        return (self.kernel - 1) * self.channels, self.value_heads * self.key_dim * self.value_dim

    def taps(self) -> Floats:
        return np.random.default_rng(5).normal(0, 0.5, (self.channels, self.kernel)).astype(np.float32)

    def decay(self) -> Floats:
        return -np.random.default_rng(6).uniform(0.01, 4, self.value_heads).astype(np.float32)

    def dt_bias(self) -> Floats:
        return np.random.default_rng(7).normal(-2, 1, self.value_heads).astype(np.float32)

    def inputs(self, rows: int, seed: int = 0) -> list[Floats]:
        """qkv before the convolution, beta and alpha."""
        widths = (self.channels, self.value_heads, self.value_heads)
        return [rows_of(rows, width, 10 * seed + i) for i, width in enumerate(widths)]


@dataclass
class Native:
    """The layer's states and programs. ``run`` evaluates one pass."""

    layer: Layer
    places: int = 8
    threads: int = 1
    isa: str | None = None
    states: _native.StateCache = field(init=False)
    programs: dict[int, _native.Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states = _native.StateCache(self.places, [(0, 0), self.layer.floats])

    def program(self, rows: int) -> _native.Program:
        if rows not in self.programs:
            self.programs[rows] = self._record(rows)
        return self.programs[rows]

    def _record(self, rows: int) -> _native.Program:
        layer = self.layer
        program = _native.Program(pool(self.threads), _native.Workspace(), rows, 0, isa=self.isa)
        qkv, beta, alpha = (program.input(x.shape[1]) for x in layer.inputs(1))
        weight = pack("F32", layer.taps().view(np.uint8).reshape(layer.channels, -1), layer.kernel)
        convolved = program.convolution(qkv, weight, self.states, 1)
        decay, dt_bias = _native.Vector(layer.decay()), _native.Vector(layer.dt_bias())
        sizes = (layer.key_heads, layer.value_heads, layer.key_dim, layer.value_dim)
        result = program.delta_rule(
            convolved, beta, alpha, decay, dt_bias, self.states, 1, *sizes, 1e-6, layer.grouped
        )
        program.tap(convolved, 0)
        program.tap(result, 1)
        program.finish()
        return program

    def run(
        self,
        inputs: Sequence[Floats],
        state_from: Sequence[int],
        state_to: Sequence[int],
        positions: Ids | None = None,
        slots: Ids | None = None,
    ) -> list[Floats]:
        """The convolution's and the delta rule's results."""
        rows = inputs[0].shape[0]
        program = self.program(rows)
        program.run(
            np.zeros(rows, np.int32),
            ids(range(rows)) if positions is None else positions,
            np.zeros(rows, np.int32) if slots is None else slots,
            ids([]),
            [np.ascontiguousarray(x) for x in inputs],
            state_from=ids(state_from),
            state_to=ids(state_to),
        )
        return [program.hidden(name).copy() for name in (0, 1)]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


def expected(layer: Layer, inputs: Sequence[Floats]) -> list[np.ndarray]:
    """Both results in float64, for one sequence from its first row on."""
    qkv, beta, alpha = (x.astype(np.float64) for x in inputs)
    before = np.concatenate([np.zeros((layer.kernel - 1, layer.channels)), qkv])
    total = sum(before[i : i + len(qkv)] * layer.taps()[:, i] for i in range(layer.kernel))
    convolved = total * sigmoid(total)
    keys = layer.key_heads * layer.key_dim
    q, k, v = np.split(convolved, [keys, 2 * keys], axis=1)
    q, k = (x.reshape(len(x), layer.key_heads, layer.key_dim) for x in (q, k))
    q, k = (x / np.sqrt((x**2).sum(axis=2, keepdims=True) + 1e-6) for x in (q, k))
    v = v.reshape(len(v), layer.value_heads, layer.value_dim)
    kept = np.exp(layer.decay() * np.logaddexp(0, alpha + layer.dt_bias()))
    results = np.zeros((len(qkv), layer.value_heads, layer.value_dim))
    shared = layer.value_heads // layer.key_heads
    for head in range(layer.value_heads):
        state = np.zeros((layer.key_dim, layer.value_dim))
        owner = head // shared if layer.grouped else head % layer.key_heads
        for row in range(len(qkv)):
            state *= kept[row, head]
            missing = v[row, head] - state.T @ k[row, owner]
            state += np.outer(k[row, owner], sigmoid(beta[row, head]) * missing)
            results[row, head] = state.T @ q[row, owner] / np.sqrt(layer.key_dim)
    return [convolved, results.reshape(len(qkv), -1)]
