"""What a target pass costs on this machine, by its rows and its context."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Protocol

_CONTEXT_STEP = 64
"""Contexts are told apart in steps of this many positions."""


class PassCost(Protocol):
    """Anything that knows T(rows, context)."""

    def row_costs(self, rows: int, context: int) -> Sequence[float]:
        """Seconds of a pass over 1, 2, ... ``rows`` rows that starts at position ``context``; never
        decreasing."""


class CostTable:
    """T(rows, context) measured at some points and interpolated between them, in seconds.

    ``measured[context][rows]`` holds seconds. Every context needs an entry for one row. Between two measured
    points T is a straight line, outside it is the nearest point's, except that rows beyond the widest pass
    measured cost as much each as the last rows measured did. A pass is taken to cost no more than any
    measured one of more rows or a longer context: what disturbs a measurement only ever adds to it.
    """

    def __init__(self, measured: Mapping[int, Mapping[int, float]]) -> None:
        if not measured:
            raise ValueError("cost table: expected at least one measured context, found none")
        for context, by_rows in measured.items():
            _check(context, by_rows)
        points = [(context, rows, s) for context, by_rows in measured.items() for rows, s in by_rows.items()]
        self._measured = {
            context: {
                rows: min(s for c, r, s in points if c >= context and r >= rows)
                for rows in sorted(measured[context])
            }
            for context in sorted(measured)
        }
        self._contexts = list(self._measured)
        self._known: dict[int, tuple[float, ...]] = {}  # by context step, as far as rows were asked for

    def row_costs(self, rows: int, context: int) -> tuple[float, ...]:
        """Seconds of a pass over 1, 2, ... ``rows`` rows that starts at position ``context``; never
        decreasing."""
        step = context // _CONTEXT_STEP
        costs = self._known.get(step, ())
        if len(costs) < rows:
            wanted = 2 * max(rows, len(costs))
            costs = self._known[step] = self._interpolate(wanted, step * _CONTEXT_STEP)
        return costs[:rows]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """The points it goes by, for a receipt; ``from_dict`` reads them back."""
        return {
            str(context): {str(rows): s for rows, s in by.items()} for context, by in self._measured.items()
        }

    @classmethod
    def from_dict(cls, measured: Mapping[str, Mapping[str, float]]) -> CostTable:
        """The table ``as_dict`` described."""
        return cls(
            {int(context): {int(rows): s for rows, s in by.items()} for context, by in measured.items()}
        )

    def _interpolate(self, rows: int, context: int) -> tuple[float, ...]:
        right = bisect_left(self._contexts, context)
        above = self._contexts[min(right, len(self._contexts) - 1)]
        below = self._contexts[max(right - 1, 0)] if context < above else above
        share = (context - below) / (above - below) if above > below else 0.0
        share = min(max(share, 0.0), 1.0)
        costs: list[float] = []
        for count in range(1, rows + 1):
            low, high = (_at(self._measured[c], count) for c in (below, above))
            costs.append(low + (high - low) * share)
        return tuple(costs)


def _check(context: int, by_rows: Mapping[int, float]) -> None:
    if 1 not in by_rows:
        raise ValueError(
            f"cost table: context {context}: expected seconds of a pass over one row, found none"
        )
    for rows, seconds in by_rows.items():
        if rows < 1 or not 0.0 < seconds < float("inf"):
            raise ValueError(
                f"cost table: context {context}: {rows} rows: expected seconds > 0, found {seconds}"
            )


def _at(by_rows: Mapping[int, float], rows: int) -> float:
    points = list(by_rows)
    right = min(bisect_left(points, rows), len(points) - 1)
    if right == 0 or points[right] == rows:
        return by_rows[points[right]]
    below, above = points[right - 1], points[right]
    slope = (by_rows[above] - by_rows[below]) / (above - below)
    return by_rows[below] + slope * (rows - below)
