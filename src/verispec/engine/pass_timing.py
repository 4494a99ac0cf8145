"""Timing target passes on this machine, for the adaptive draft width."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from verispec.backends.contract import BackendAdapter, chain
from verispec.backends.draft_block import DraftBlock, FollowingBlock
from verispec.backends.prediction_block import PredictionBlock
from verispec.drafting.draft_text import DraftText
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


def measure_draft_seconds(backend: BackendAdapter, block: PredictionBlock, sequence: int) -> float:
    """What a prediction block takes for one more token, its head included, measured on an empty ``sequence``."""
    hidden = np.zeros((1, backend.capabilities.hidden_size), np.float32)
    positions = range(1, min(_TURNS + 1, backend.capabilities.context))
    seconds = float("inf")
    for position in positions:  # the first step captures the pass, and is never the least
        started = time.perf_counter()
        prediction = block.step(sequence, position, 0, hidden)
        prediction.logits.argmax()
        seconds = min(seconds, time.perf_counter() - started)
    return seconds


def measure_text_seconds(text: DraftText) -> float:
    """Seconds a token of a draft model, measured on a sequence of its own that is given back."""
    model = text.model
    measured = DraftText(model, text.sequence)
    tokens = [0]
    seconds = float("inf")
    for _ in range(min(_TURNS + 1, model.capabilities.context)):
        seconds = min(seconds, _seconds(measured.read, list(tokens)))
        tokens.append(0)
    text.held.clear()
    return seconds


def measure_head_seconds(backend: BackendAdapter, head: PredictionBlock | DraftBlock) -> tuple[float, float]:
    """Seconds a token and seconds a proposal of a draft head, measured on the sequence that is nobody's."""
    sequence = backend.capabilities.sequences
    hidden = np.zeros((1, head.columns), np.float32)
    if isinstance(head, PredictionBlock):
        fed_back = head.absorb(sequence, 1, [0], hidden)
        steps = range(2, min(_TURNS + 2, head.positions))
        return min((_seconds(head.step, sequence, p, 0, fed_back) for p in steps), default=0.0), 0.0
    head.absorb(sequence, 0, hidden)
    if head.width + 1 >= head.positions:
        return 0.0, 0.0
    block = min(_seconds(head.predict, sequence, 1, 0) for _ in range(_TURNS))
    if not isinstance(head, FollowingBlock):
        return 0.0, block
    row = head.predict(sequence, 1, 0).hidden[0]
    return min(_seconds(head.follow, 0, row) for _ in range(_TURNS)), block


def _seconds(call: Callable[..., object], *arguments: object) -> float:
    """What one call takes; the first of its kind captures a pass, and is never the least."""
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started
