"""The operations by native kernels: a graph is recorded once and then runs without Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from verispec import _native
from verispec.ops.contract import AttentionSpec, ConvolutionSpec, DeltaSpec, Operations, RopeSpec
from verispec.ops.native_weights import NativeWeights


@dataclass
class Rotations:
    """Rotation tables for positions below ``positions``, made once per specification."""

    positions: int
    _tables: dict[RopeSpec, _native.RopeTable] = field(default_factory=dict)

    def table(self, spec: RopeSpec) -> _native.RopeTable:
        """The table of ``spec``."""
        if spec not in self._tables:
            self._tables[spec] = _native.RopeTable(
                spec.inverse_frequencies, spec.magnitude, spec.interleaved, self.positions
            )
        return self._tables[spec]


class NativeOperations(Operations[int]):
    """Records a graph into ``program``. Handles are the program's buffers.

    ``cache`` and ``states`` hold one layer per layer index of the graph; a graph without recurrent layers needs no
    ``states``. ``weights`` holds every weight the graph names.
    """

    def __init__(
        self,
        program: _native.Program,
        weights: NativeWeights,
        cache: _native.KvCache,
        rotations: Rotations,
        states: _native.StateCache | None = None,
    ) -> None:
        self._program = program
        self._weights = weights
        self._cache = cache
        self._rotations = rotations
        self._states = states

    def hidden_input(self, width: int) -> int:
        return self._program.input(width)

    def embedding(self, table: str, scale: float) -> int:
        return self._program.embedding(self._weights.matrices[table], scale)

    def linear(self, x: int, weights: Sequence[str], biases: Sequence[str | None] = ()) -> tuple[int, ...]:
        matrices = [self._weights.matrices[name] for name in weights]
        vectors = [self._vector(name) for name in biases]
        return tuple(self._program.linear(x, matrices, vectors))

    def rms_norm(self, x: int, weight: str, epsilon: float, groups: int = 1) -> int:
        return self._program.rms_norm(x, self._vector(weight), epsilon, groups)

    def rope(self, x: int, heads: int, spec: RopeSpec) -> int:
        return self._program.rope(x, heads, self._rotations.table(spec))

    def attention(self, q: int, k: int, v: int, spec: AttentionSpec) -> int:
        shape = spec.heads, spec.scale, spec.window, spec.softcap, spec.first, spec.block
        return self._program.attention(q, k, v, self._cache, spec.layer, *shape)

    def store(self, k: int, v: int, spec: AttentionSpec) -> None:
        self._program.store_kv(k, v, self._cache, spec.layer)

    def convolution(self, x: int, weight: str, spec: ConvolutionSpec) -> int:
        matrix = self._weights.matrices[weight]
        return self._program.convolution(x, matrix, self._recurrent(), spec.layer)

    def delta_rule(self, qkv: int, beta: int, alpha: int, decay: str, dt_bias: str, spec: DeltaSpec) -> int:
        return self._program.delta_rule(
            qkv,
            beta,
            alpha,
            self._weights.vectors[decay],
            self._weights.vectors[dt_bias],
            self._recurrent(),
            spec.layer,
            spec.key_heads,
            spec.value_heads,
            spec.key_dim,
            spec.value_dim,
            spec.epsilon,
            spec.grouped,
        )

    def sigmoid_gate(self, x: int, gate: int) -> int:
        return self._program.sigmoid_gate(x, gate)

    def split(self, x: int, widths: Sequence[int], groups: int = 1) -> tuple[int, ...]:
        return tuple(self._program.split(x, widths, groups))

    def concat(self, parts: Sequence[int]) -> int:
        return self._program.concat(parts)

    def route(self, logits: int, used: int, normalise: bool) -> tuple[int, int]:
        return self._program.route(logits, used, normalise)

    def expert_linear(self, x: int, ids: int, weight: str) -> int:
        return self._program.expert_linear(x, ids, self._weights.experts[weight])

    def expert_sum(self, x: int, shares: int) -> int:
        return self._program.expert_sum(x, shares)

    def swiglu(self, gate: int, up: int) -> int:
        return self._program.swiglu(gate, up)

    def geglu(self, gate: int, up: int) -> int:
        return self._program.geglu(gate, up)

    def add(self, a: int, b: int) -> int:
        return self._program.add(a, b)

    def scale(self, x: int, factor: float) -> int:
        return self._program.scale(x, factor)

    def select_outputs(self, x: int) -> int:
        return self._program.select_outputs(x)

    def tap(self, x: int, layer: int) -> None:
        self._program.tap(x, layer)

    def output_head(self, x: int, weight: str, softcap: float = 0.0, bias: str | None = None) -> None:
        self._program.output_head(x, self._weights.matrices[weight], self._vector(bias), softcap)

    def _recurrent(self) -> _native.StateCache:
        if self._states is None:
            raise ValueError("graph: expected no recurrent layer without a state cache, found one")
        return self._states

    def _vector(self, name: str | None) -> _native.Vector | None:
        return None if name is None else self._weights.vectors[name]


PROGRAMS_KEPT = 64
"""Programs a model keeps; recording one takes milliseconds, and each some hundred kilobytes."""

Graph = Callable[[NativeOperations, int, frozenset[int]], None]
"""Evaluates a pass: the operations, the number of output rows, the taps to keep."""


class PassKind(NamedTuple):
    """What a program is recorded for."""

    rows: int
    outputs: int
    logits: bool
    taps: frozenset[int]


class NativePasses:
    """The programs of one model and cache: each kind of pass is recorded when it is first asked for.

    They share a workspace, so results hold until the next run of any of them. A ``workspace`` that is given may serve
    other passes too, as long as none is given the results of another as its hidden input: those lie where it writes.
    """

    def __init__(
        self,
        graph: Graph,
        weights: NativeWeights,
        cache: _native.KvCache,
        pool: _native.ThreadPool,
        isa: str | None = None,
        states: _native.StateCache | None = None,
        workspace: _native.Workspace | None = None,
    ) -> None:
        self._graph = graph
        self._weights = weights
        self._cache = cache
        self._pool = pool
        self._isa = _native.resolve_isa(isa)
        self._states = states
        self._workspace = _native.Workspace() if workspace is None else workspace
        self._rotations = Rotations(cache.positions)
        self._programs: dict[PassKind, _native.Program] = {}

    @property
    def isa(self) -> str:
        """The instruction set the kernels use."""
        return self._isa

    def program(self, kind: PassKind) -> _native.Program:
        """The program of ``kind``, finished."""
        program = self._programs.pop(kind, None)
        if program is None:
            program = self._record(kind)
            if len(self._programs) >= PROGRAMS_KEPT:
                del self._programs[next(iter(self._programs))]
        self._programs[kind] = program  # last in order: most recently used
        return program

    def _record(self, kind: PassKind) -> _native.Program:
        program = _native.Program(
            self._pool, self._workspace, kind.rows, kind.outputs, kind.logits, self._isa
        )
        operations = NativeOperations(program, self._weights, self._cache, self._rotations, self._states)
        self._graph(operations, kind.outputs, kind.taps)
        program.finish()
        return program
