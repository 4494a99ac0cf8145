"""How much of writing a token is Python: everything outside the native program's own run.

Run as ``python -m benchmarks.python_share MODEL``. Prints JSON. Greedy, without speculation: one pass a token, so that
whatever the engine does around a pass is counted at its most.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from verispec.backends.native import NativeBackend
from verispec.bench.host import host_facts, load_average
from verispec.engine.loading import load

PROMPT = "The history of the lighthouse begins"
TOKENS = 200
TURNS = 5


class TimedProgram:
    """A native program whose runs are timed; everything else is the program's."""

    def __init__(self, program: Any, spent: list[float]) -> None:
        self._program = program
        self._spent = spent

    def evaluate(self, *arrays: Any) -> list[int]:
        started = time.perf_counter()
        argmax: list[int] = self._program.evaluate(*arrays)
        self._spent.append(time.perf_counter() - started)
        return argmax

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


def measure(name: str) -> dict[str, Any]:
    """Seconds of each part over the quickest of five turns."""
    best: dict[str, float] = {}
    with load(name, ctx=1024) as model:
        backend = model.backend
        assert isinstance(backend, NativeBackend)
        spent: list[float] = []
        passes: Any = backend._passes  # the one place between the adapter and the native program
        program = passes.program
        passes.program = lambda kind: TimedProgram(program(kind), spent)
        for _ in range(TURNS):
            spent.clear()
            written = model.generate(PROMPT, max_tokens=TOKENS, spec_mode="off", ignore_eos=True)
            total = written.timings.total
            native = sum(spent)
            if not best or total < best["total_seconds"]:
                best = {"total_seconds": total, "native_seconds": native, "python_share": 1 - native / total}
        threads = backend.threads
    return {
        "model": name,
        "threads": threads,
        "tokens": TOKENS,
        **best,
        "host": host_facts(),
        "load": load_average(),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1] if len(sys.argv) > 1 else "smollm2-135m"), indent=2))
