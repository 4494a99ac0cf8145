"""Checks the rows of a pass: known tokens, room in the context, and chains that continue their sequences."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.backends.contract import COMMITTED, Row
from verispec.errors import BackendError, ContextOverflowError, UnsupportedError


def check_rows(rows: Sequence[Row], lengths: dict[int, int], vocabulary: int, context: int) -> dict[int, int]:
    """One past the last position of each sequence in ``rows``, given the committed ``lengths``.

    Raises BackendError for a row that does not follow, ContextOverflowError for one outside the context, and
    UnsupportedError for a tree.
    """
    ends = dict(lengths)
    last: dict[int, int] = {}
    for index, (sequence, position, token, parent) in enumerate(rows):
        if not 0 <= token < vocabulary:
            raise BackendError(f"row {index}: expected a token in 0..{vocabulary - 1}, found {token}")
        expected_parent = last.get(sequence, COMMITTED)
        if parent != expected_parent:
            _refuse_parent(index, parent, expected_parent)
        if position != ends[sequence]:
            expected = f"position {ends[sequence]} in sequence {sequence}"
            raise BackendError(f"row {index}: expected {expected}, found {position}")
        if position >= context:
            raise ContextOverflowError(
                f"row {index}: expected a position below {context} (the context), found {position}"
            )
        ends[sequence] = position + 1
        last[sequence] = index
    return ends


def _refuse_parent(index: int, parent: int, expected: int) -> None:
    if COMMITTED <= parent < index:
        raise UnsupportedError(
            "tree-rows",
            f"row {index}: expected parent {expected}, the row before it in its sequence, found {parent}",
            "This backend evaluates chains; offer one continuation a sequence",
        )
    raise BackendError(f"row {index}: expected parent {expected}, found {parent}")


def check_call(rows: int, outputs: Sequence[int], taps: Sequence[int], offered: Sequence[int]) -> None:
    """Raises BackendError unless there are rows, ``outputs`` among them, and ``taps`` among those ``offered``."""
    if not rows:
        raise BackendError("rows: expected at least one, found none")
    check_outputs(outputs, rows)
    for tap in taps:
        if tap not in offered:
            raise BackendError(f"taps: expected some of {tuple(offered)}, found {tap}")


def check_outputs(outputs: Sequence[int], rows: int) -> None:
    """Raises BackendError unless ``outputs`` are ascending row indices."""
    before = -1
    for output in outputs:
        if not before < output < rows:
            raise BackendError(f"outputs: expected ascending rows in 0..{rows - 1}, found {list(outputs)}")
        before = output
