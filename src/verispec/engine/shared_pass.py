"""One target pass for the rows of several requests. By row invariance (C1) none of them can tell."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from verispec.backends.contract import BackendAdapter, Evaluation, Row, chain


class PassShare(NamedTuple):
    """What one request brings to a pass: a chain of ``tokens`` from ``position``, its committed length.

    The last ``outputs`` rows give outputs. ``taps`` are the hidden states it wants of all its rows.
    """

    sequence: int
    position: int
    tokens: Sequence[int]
    outputs: int
    want_logits: bool
    taps: tuple[int, ...] = ()


T = TypeVar("T")
Step = Generator[PassShare, Evaluation, T]
"""A piece of a request's work that stops once, where it needs a pass: it gives its share and is sent the outcome."""


def evaluate_together(backend: BackendAdapter, shares: Sequence[PassShare]) -> list[Evaluation]:
    """Evaluates every share in one pass and gives each its own outputs, in order."""
    rows: list[Row] = []
    outputs: list[int] = []
    ends = [(0, 0)]
    for share in shares:
        rows += chain(share.sequence, share.position, share.tokens, len(rows))
        outputs += range(len(rows) - share.outputs, len(rows))
        ends.append((len(rows), len(outputs)))
    taps = sorted({tap for share in shares for tap in share.taps})
    whole = backend.evaluate(rows, outputs, any(share.want_logits for share in shares), taps)
    return [
        Evaluation(
            whole.argmax[begin:end],
            None if whole.logits is None else whole.logits[begin:end],
            {tap: whole.hidden[tap][row_begin:row_end] for tap in share.taps},
        )
        for share, ((row_begin, begin), (row_end, end)) in zip(shares, pairwise(ends), strict=True)
    ]


def evaluate_alone(backend: BackendAdapter, share: PassShare) -> Evaluation:
    """The same for one share."""
    rows = chain(share.sequence, share.position, share.tokens)
    outputs = range(len(rows) - share.outputs, len(rows))
    return backend.evaluate(rows, outputs, share.want_logits, share.taps)


def run_alone(backend: BackendAdapter, step: Step[T]) -> T:
    """Runs a step with a pass of its own."""
    try:
        share = next(step)
        while True:
            share = step.send(evaluate_alone(backend, share))
    except StopIteration as finished:
        value: T = finished.value
        return value
    finally:
        step.close()  # an interrupt between the two halves: the step restores what it had retained
