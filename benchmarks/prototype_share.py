"""The bandwidth of a model's linear layers against that of bare prototypes of such a layer, in one run.

Run as ``python -m benchmarks.prototype_share MODEL BINARY...``. A binary reads all weights of a model of this shape,
with nothing around its loops, and prints a line ``threads 2 M 1 median 2.10 ms min 2.00 (84.0 MB, 40.0 GB/s)`` for
each row count M. Ours is the model's own recorded pass over one row with everything but its linear layers and its head
taken out. Both take turns. Prints JSON; ``share`` is our bandwidth over that of the best prototype.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from verispec import _native
from verispec.backends.native import NativeBackend
from verispec.bench.conditions import conditions
from verispec.bench.samples import Samples
from verispec.engine.loading import load
from verispec.ops.contract import AttentionSpec, RopeSpec
from verispec.ops.native import NativeOperations, Rotations
from verispec.ops.native_weights import NativeWeights

PASSES_A_TURN = 12
"""As many as a prototype takes a run: the quickest of more would flatter us."""
LINE = re.compile(r"threads +(\d+) +M +1 +median +([\d.]+) ms +min +([\d.]+) +\(([\d.]+) MB")


class LinearOperations(NativeOperations):
    """Records embedding, linear layers and head alone; the rest hands one of its inputs on.

    ``add`` hands the residual on, so that no layer sees what another computed and nothing grows from layer to layer.
    """

    def __init__(
        self,
        program: _native.Program,
        weights: NativeWeights,
        cache: _native.KvCache,
        rotations: Rotations,
    ) -> None:
        super().__init__(program, weights, cache, rotations)
        self.read: set[str] = set()
        """The matrices that a pass reads as a whole."""

    def linear(self, x: int, weights: Sequence[str], biases: Sequence[str | None] = ()) -> tuple[int, ...]:
        self.read.update(weights)
        return super().linear(x, weights, biases)

    def output_head(self, x: int, weight: str, softcap: float = 0.0, bias: str | None = None) -> None:
        self.read.add(weight)
        super().output_head(x, weight, softcap, bias)

    def rms_norm(self, x: int, weight: str, epsilon: float, groups: int = 1) -> int:
        return x

    def rope(self, x: int, heads: int, spec: RopeSpec) -> int:
        return x

    def attention(self, q: int, k: int, v: int, spec: AttentionSpec) -> int:
        return q

    def swiglu(self, gate: int, up: int) -> int:
        return gate

    def geglu(self, gate: int, up: int) -> int:
        return gate

    def add(self, a: int, b: int) -> int:
        return b


@dataclass(slots=True)
class Readings:
    """Seconds of reading ``nbytes`` of weights once; a prototype says the median and minimum of each of its runs."""

    nbytes: int = 0
    medians: Samples = field(default_factory=Samples)
    minima: Samples = field(default_factory=Samples)

    @property
    def bandwidth(self) -> float:
        """Bytes per second in the quickest pass of all: what else ran on the machine only slows."""
        return self.nbytes / self.minima.minimum

    @property
    def median_bandwidth(self) -> float:
        """Bytes per second in the median of the turns' median passes."""
        return self.nbytes / self.medians.median

    def as_dict(self) -> dict[str, Any]:
        return {
            "bytes": self.nbytes,
            "minimum_ms": round(self.minima.minimum * 1e3, 3),
            "median_ms": round(self.medians.median * 1e3, 3),
            "gigabytes_per_second": round(self.bandwidth / 1e9, 2),
            "median_gigabytes_per_second": round(self.median_bandwidth / 1e9, 2),
        }


class LinearPart:
    """The linear layers and the head of a loaded model, over one row."""

    def __init__(self, backend: NativeBackend) -> None:
        passes: Any = backend._passes  # the one place between the adapter and the native program
        self._workspace = _native.Workspace()
        self._program = _native.Program(passes._pool, self._workspace, 1, 1, False, passes.isa)
        rotations = Rotations(passes._cache.positions)
        operations = LinearOperations(self._program, passes._weights, passes._cache, rotations)
        passes._graph(operations, 1, frozenset())
        self._program.finish()
        self.readings = Readings(sum(passes._weights.matrices[name].nbytes for name in operations.read))

    def turn(self) -> None:
        arrays = [np.array([value], np.int32) for value in (7, 0, 0, 0)]
        seconds = Samples()
        for _ in range(PASSES_A_TURN):
            started = time.perf_counter()
            self._program.run(*arrays)
            seconds.add(time.perf_counter() - started)
        self.readings.minima.add(seconds.minimum)
        self.readings.medians.add(seconds.median)


def read_prototype(binary: str, threads: int, readings: Readings) -> None:
    """One run of a prototype."""
    printed = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    lines = {int(count): values for count, *values in LINE.findall(printed)}
    if threads not in lines:
        raise SystemExit(
            f"{binary}: expected a line for {threads} threads and one row, found {printed[:200]!r}"
        )
    median, least, megabytes = map(float, lines[threads])
    readings.nbytes = round(megabytes * 1e6)
    readings.medians.add(median / 1e3)
    readings.minima.add(least / 1e3)


def measure(name: str, binaries: Sequence[str], threads: int, turns: int) -> dict[str, Any]:
    """The shares by the quickest and by the median pass, and what they are made of."""
    prototypes = {Path(binary).name: Readings() for binary in binaries}
    with load(name, ctx=1024, threads=threads) as model:
        facts = conditions(model, name)
        backend = model.backend
        assert isinstance(backend, NativeBackend)
        ours = LinearPart(backend)
        for _ in range(turns):
            ours.turn()
            for binary, readings in zip(binaries, prototypes.values(), strict=True):
                read_prototype(binary, threads, readings)
    best = max(readings.bandwidth for readings in prototypes.values())
    best_median = max(readings.median_bandwidth for readings in prototypes.values())
    return {
        "share": round(ours.readings.bandwidth / best, 4),
        "share_of_medians": round(ours.readings.median_bandwidth / best_median, 4),
        "linear_part": ours.readings.as_dict(),
        "prototypes": {label: readings.as_dict() for label, readings in prototypes.items()},
        "turns": turns,
        "conditions": facts,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prototype_share", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("binaries", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    print(json.dumps(measure(given.model, given.binaries, given.threads, given.turns), indent=1))
