"""A pass while another process keeps one core busy, against the same pass on a quiet machine.

Run as ``python -m benchmarks.busy_core MODEL``. Prints JSON: seconds of single-row passes in turns, without and with a
process that spins on the last core.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from verispec.backends.contract import chain
from verispec.bench.host import host_facts
from verispec.engine.loading import load
from verispec.engine.model import Model

SPIN = "import os\nos.sched_setaffinity(0, {%d})\nwhile True: pass"
CONTEXT = 256
PASSES = 150
TURNS = 4


def measure(name: str, threads: int | None = None) -> dict[str, Any]:
    """Medians and 90th percentiles of both conditions, and their ratios."""
    quiet: list[float] = []
    busy: list[float] = []
    with load(name, ctx=1024, threads=threads) as model:
        for _ in range(TURNS):
            quiet += _passes(model)
            process = subprocess.Popen([sys.executable, "-c", SPIN % max(os.sched_getaffinity(0))])
            try:
                time.sleep(0.2)
                busy += _passes(model)
            finally:
                process.kill()
                process.wait()
    return {
        "model": name,
        "context": CONTEXT,
        "passes": len(quiet),
        "quiet": _summary(quiet),
        "busy": _summary(busy),
        "median_ratio": statistics.median(busy) / statistics.median(quiet),
        "p90_ratio": _summary(busy)["p90_seconds"] / _summary(quiet)["p90_seconds"],
        "host": host_facts(),
    }


def _passes(model: Model) -> list[float]:
    backend = model.backend
    sequence = backend.open_sequence()
    try:
        backend.evaluate(chain(sequence, 0, [5] * CONTEXT), (), False)
        backend.commit(sequence, CONTEXT)
        seconds = []
        for _ in range(PASSES):
            started = time.perf_counter()
            backend.evaluate(chain(sequence, CONTEXT, [7]), (0,), False)
            seconds.append(time.perf_counter() - started)
        return seconds
    finally:
        backend.close_sequence(sequence)


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median_seconds": statistics.median(ordered),
        "p90_seconds": ordered[int(0.9 * len(ordered))],
        "worst_seconds": ordered[-1],
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1] if len(sys.argv) > 1 else "smollm2-135m"), indent=2))
