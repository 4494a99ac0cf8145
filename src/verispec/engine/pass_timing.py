"""Timing target passes on this machine, for the adaptive draft width."""

from __future__ import annotations

import time

from verispec.backends.contract import BackendAdapter, chain
from verispec.engine.pass_cost import CostTable

_CONTEXTS = (16, 256)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_REPEATS = 3


def measure_pass_costs(backend: BackendAdapter) -> CostTable:
    """T(rows, context) at a few points, the least of three passes each; about a quarter of a second on a small model.

    Takes a sequence of the backend while it runs.
    """
    capabilities = backend.capabilities
    widest = min(_ROWS[-1], capabilities.max_rows, capabilities.context)
    rows = [count for count in _ROWS if count <= widest]
    contexts = [context for context in _CONTEXTS if context + widest <= capabilities.context] or [0]
    sequence = backend.open_sequence()
    try:
        return CostTable({context: _at(backend, sequence, context, rows) for context in contexts})
    finally:
        backend.close_sequence(sequence)


def _at(backend: BackendAdapter, sequence: int, context: int, rows: list[int]) -> dict[int, float]:
    filled = backend.length(sequence)
    if context > filled:
        backend.evaluate(chain(sequence, filled, [0] * (context - filled)), (), False)
        backend.commit(sequence, context)
    seconds = dict.fromkeys(rows, float("inf"))
    for repeat in range(_REPEATS + 1):
        for count in rows:
            chained = chain(sequence, context, [0] * count)
            started = time.perf_counter()
            backend.evaluate(chained, range(count), False)
            if repeat:  # the first pass of a row count captures it
                seconds[count] = min(seconds[count], time.perf_counter() - started)
    return seconds
