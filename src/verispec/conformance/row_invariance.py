"""C1 end to end: a token's logits are the same bits however the rows of its sequence are cut into passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from verispec.backends.contract import BackendAdapter, chain


@dataclass(slots=True)
class InvarianceReport:
    """Logit rows compared with those of one row a pass, and the first that differed under each cut."""

    rows: int = 0
    identical: int = 0
    first_differences: list[str] = field(default_factory=list)


def run_row_invariance(
    backend: BackendAdapter,
    tokens: Sequence[int],
    widths: Sequence[int],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> InvarianceReport:
    """Evaluates ``tokens`` one row a pass, then ``widths`` rows a pass, and compares every row's logits bit for bit."""
    reference = _logits(backend, tokens, 1)
    report = InvarianceReport()
    for done, width in enumerate(widths, 1):
        found = _logits(backend, tokens, width)
        same = [a.tobytes() == b.tobytes() for a, b in zip(reference, found, strict=True)]
        report.rows += len(same)
        report.identical += sum(same)
        if not all(same):
            row = same.index(False)
            worst = float(np.abs(reference[row] - found[row]).max())
            report.first_differences.append(f"{width} rows a pass: row {row} differs by up to {worst:g}")
        progress(done, len(widths))
    return report


def _logits(backend: BackendAdapter, tokens: Sequence[int], width: int) -> list[npt.NDArray[np.float32]]:
    sequence = backend.open_sequence()
    rows: list[npt.NDArray[np.float32]] = []
    try:
        for start in range(0, len(tokens), width):
            part = tokens[start : start + width]
            evaluation = backend.evaluate(chain(sequence, start, part), range(len(part)), True)
            assert evaluation.logits is not None
            rows += [row.copy() for row in evaluation.logits]
            backend.commit(sequence, start + len(part))
    finally:
        backend.close_sequence(sequence)
    return rows
