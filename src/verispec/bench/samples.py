"""Repeated measurements of one quantity."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Samples:
    """Seconds (or rates) in the order they were taken."""

    values: list[float] = field(default_factory=list)

    def add(self, values: float | Sequence[float]) -> None:
        self.values.extend([values] if isinstance(values, (int, float)) else values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def minimum(self) -> float:
        """What a pass costs when nothing else disturbs it: noise only adds."""
        return min(self.values)

    def as_dict(self, unit: float = 1.0, digits: int = 4) -> dict[str, float | int]:
        """Median, minimum, maximum and count, multiplied by ``unit``."""
        return {
            "median": round(self.median * unit, digits),
            "minimum": round(self.minimum * unit, digits),
            "maximum": round(max(self.values) * unit, digits),
            "count": len(self.values),
        }
