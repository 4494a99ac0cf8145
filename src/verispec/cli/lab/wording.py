"""Words around numbers on the terminal: changes, intervals, days; the same in all commands of the lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def day_text(moment: float) -> str:
    """Seconds since the epoch for people."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")


def percent_text(value: float | None) -> str:
    """A signed percentage; a dash for one that is not known."""
    return "-" if value is None else f"{value:+.2f}%"


def interval_text(ends: Sequence[float | None]) -> str:
    """Two ends in percent; one that is not known rules nothing out on its side."""
    low, high = ends
    if low is None and high is None:
        return "nothing ruled out"
    if low is None or high is None:
        return f"{percent_text(low)} or more" if high is None else f"{percent_text(high)} or less"
    return f"{percent_text(low)} to {percent_text(high)}"


def decided_interval(decision: Mapping[str, Any]) -> str:
    """That of a decision's record; a dash where nothing was compared."""
    return "-" if decision["effect_percent"] is None else interval_text(decision["interval_percent"])
