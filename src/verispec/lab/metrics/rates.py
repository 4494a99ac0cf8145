"""The metrics of one row, by the client's clock. t_k is the arrival of the k-th generated token, t_0 the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from verispec.lab.metrics.token_times import token_times

WINDOW = 100


@dataclass(frozen=True, slots=True)
class RowMetrics:
    """Rates are tokens a second, times seconds; None where the row is too short, or its tokens came all at once.

    ttft: t_1 - t_0. rate_1_100: 99 / (t_100 - t_1), the intervals between 100 tokens. rate_1_100_by_100:
    100 / (t_100 - t_1), a form that is in use and 1% too high. full: (n - 1) / (t_n - t_1). wall: n / (t_n - t_0).
    tokens_per_pass and seconds_per_pass: of the passes behind the first one, so that their quotient is the steady rate
    of the tokens behind those that arrived first; known where the server counts passes.
    """

    tokens: int
    ttft: float | None
    rate_1_100: float | None
    rate_1_100_by_100: float | None
    full: float | None
    wall: float | None
    seconds: float | None
    tokens_per_pass: float | None
    seconds_per_pass: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


RATES = ("rate_1_100", "rate_1_100_by_100", "full", "wall")


def row_metrics(row: Mapping[str, Any]) -> RowMetrics:
    """Raises OptionError for a row whose tokens have no times."""
    times = token_times(row)
    count = len(times)
    window = times[WINDOW - 1] - times[0] if count >= WINDOW else None
    span = times[-1] - times[0] if count > 1 else None
    per_pass, seconds_per_pass = _factors(times, row)
    return RowMetrics(
        tokens=count,
        ttft=times[0] if times else None,
        rate_1_100=_quotient(WINDOW - 1, window),
        rate_1_100_by_100=_quotient(WINDOW, window),
        full=_quotient(count - 1, span),
        wall=_quotient(count, times[-1] if times else None),
        seconds=times[-1] if times else None,
        tokens_per_pass=per_pass,
        seconds_per_pass=seconds_per_pass,
    )


def _factors(times: list[float], row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The first pass's tokens arrive at t_1, and the time before it is the prompt's."""
    passes = (row.get("counts") or {}).get("passes")
    if not passes or passes < 2 or len(times) < 2:
        return None, None
    first = times.count(times[0])
    behind = len(times) - first
    if not behind:
        return None, None
    return behind / (passes - 1), (times[-1] - times[0]) / (passes - 1)


def _quotient(count: int, seconds: float | None) -> float | None:
    return count / seconds if seconds and seconds > 0 else None
