"""Timing target passes on this machine, for the adaptive draft width."""

from __future__ import annotations

import time

from verispec.backends.contract import BackendAdapter, chain
from verispec.engine.pass_cost import CostTable

_CONTEXTS = (16, 256)
_ROWS = (1, 2, 4, 6, 8, 12, 16)
_TURNS = 5

ASSUMED_COSTS = CostTable({0: {1: 1.0, 4: 1.25, 8: 1.75, 16: 3.0}})
"""What passes cost where none could be timed, in passes of one row: an adaptive width goes by ratios alone. A small
model on a desktop processor is about as steep; a flatter truth loses some speed, a steeper one is paid for by the
policy's own allowance."""


def measure_pass_costs(backend: BackendAdapter, sequence: int) -> CostTable:
    """T(rows, context) at a few points, measured on an empty ``sequence`` of the backend's.

    Row counts take turns, so that whatever slows the machine for a while slows none of them alone, and the least of
    five passes each counts. About half a second on a model whose pass takes 4 ms.
    """
    capabilities = backend.capabilities
    widest = min(_ROWS[-1], capabilities.max_rows, capabilities.context)
    rows = [count for count in _ROWS if count <= widest]
    contexts = [context for context in _CONTEXTS if context + widest <= capabilities.context] or [0]
    for count in rows:  # the first pass of a row count captures it
        backend.evaluate(chain(sequence, 0, [0] * count), range(count), False)
    return CostTable({context: _at(backend, sequence, context, rows) for context in contexts})


def _at(backend: BackendAdapter, sequence: int, context: int, rows: list[int]) -> dict[int, float]:
    filled = backend.length(sequence)
    if context > filled:
        backend.evaluate(chain(sequence, filled, [0] * (context - filled)), (), False)
        backend.commit(sequence, context)
    seconds = dict.fromkeys(rows, float("inf"))
    for _ in range(_TURNS):
        for count in rows:
            chained = chain(sequence, context, [0] * count)
            started = time.perf_counter()
            backend.evaluate(chained, range(count), False)
            seconds[count] = min(seconds[count], time.perf_counter() - started)
    return seconds
