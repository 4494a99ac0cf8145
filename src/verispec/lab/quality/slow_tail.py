"""The slow end of a lane, prompt by prompt: is it the prompt or the moment, the drafts, the passes, or a stall?"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verispec.lab.metrics.rates import row_metrics
from verispec.lab.metrics.token_times import token_times

Rows = Sequence[Mapping[str, Any]]
STALL = 5.0
"""A pause this many times the median one is a stall."""


@dataclass(frozen=True, slots=True)
class TailPrompt:
    """One prompt, slowest first. Shares are of the lanes' median prompt: ``behind_percent`` is how much slower it is.

    ``from_drafts`` and ``from_passes`` split that: fewer tokens a pass, longer passes (log scale, in percent of the
    loss; None where passes are not counted). ``stalls`` are pauses beyond ``STALL`` medians, ``stalled`` their share of
    the time in its worst lane. ``spread_percent`` is how far its lanes lie apart: low for one that is always slow.
    """

    prompt: str
    kind: str
    rate: float
    behind_percent: float
    from_drafts: float | None
    from_passes: float | None
    stalls: int
    stalled: float
    longest_pause: float
    spread_percent: float | None
    cause: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def audit_tail(lanes: Sequence[Rows], share: float = 0.25) -> list[TailPrompt]:
    """The slowest ``share`` of prompts over lanes of one configuration, at least one; rates are ``full``.

    Rows with a fault, or without a rate, are left out.
    """
    by_prompt: dict[str, list[Mapping[str, Any]]] = {}
    for rows in lanes:
        for row in rows:
            if row["fault"] is None and row_metrics(row).full:
                by_prompt.setdefault(row["prompt"], []).append(row)
    if not by_prompt:
        return []
    rates = {prompt: statistics.median(_full(row) for row in rows) for prompt, rows in by_prompt.items()}
    middle = _Middle.of(list(by_prompt.values()), statistics.median(rates.values()))
    slowest = sorted(rates, key=rates.__getitem__)[: max(1, math.ceil(share * len(rates)))]
    return [_audit(by_prompt[prompt], rates[prompt], middle) for prompt in slowest]


@dataclass(frozen=True, slots=True)
class _Middle:
    """The median prompt."""

    rate: float
    tokens_per_pass: float | None
    seconds_per_pass: float | None

    @classmethod
    def of(cls, prompts: Sequence[Rows], rate: float) -> _Middle:
        return cls(rate, _median_of(prompts, "tokens_per_pass"), _median_of(prompts, "seconds_per_pass"))


def _audit(rows: Rows, rate: float, middle: _Middle) -> TailPrompt:
    loss = math.log(middle.rate / rate)
    drafts = _log_ratio(middle.tokens_per_pass, _median(rows, "tokens_per_pass"))
    passes = _log_ratio(_median(rows, "seconds_per_pass"), middle.seconds_per_pass)
    worst = max(rows, key=lambda row: _stalls(row)[1])
    count, stalled, longest = _stalls(worst)
    rates = [_full(row) for row in rows]
    return TailPrompt(
        prompt=str(rows[0]["prompt"]),
        kind=str(rows[0]["class"]),
        rate=rate,
        behind_percent=100 * (1 - rate / middle.rate),
        from_drafts=_part(drafts, loss),
        from_passes=_part(passes, loss),
        stalls=count,
        stalled=stalled,
        longest_pause=longest,
        spread_percent=100 * statistics.stdev(rates) / statistics.fmean(rates) if len(rates) > 1 else None,
        cause=_cause(loss, drafts, passes, stalled),
    )


def _cause(loss: float, drafts: float | None, passes: float | None, stalled: float) -> str:
    """The largest part of the loss, in words."""
    if loss < math.log(1.05):
        return "not slow: within 5% of the median prompt"
    if stalled > (1 - math.exp(-loss)) / 2:
        return "stalls: the stream pauses"
    if drafts is None or passes is None:
        return "unknown: the server does not count passes"
    return "drafts: fewer tokens a pass" if drafts >= passes else "passes: each takes longer"


def _stalls(row: Mapping[str, Any]) -> tuple[int, float, float]:
    """How many, their share of the time behind the first token, and the longest pause in seconds."""
    times = sorted(set(token_times(row)))
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    if not pauses:
        return 0, 0.0, 0.0
    usual = statistics.median(pauses)
    long = [pause for pause in pauses if pause > STALL * usual]
    return len(long), (sum(long) - usual * len(long)) / (times[-1] - times[0]), max(pauses)


def _full(row: Mapping[str, Any]) -> float:
    return row_metrics(row).full or 0.0


def _median(rows: Rows, name: str) -> float | None:
    found = [getattr(row_metrics(row), name) for row in rows]
    return None if None in found else statistics.median(found)


def _median_of(prompts: Sequence[Rows], name: str) -> float | None:
    found = [_median(rows, name) for rows in prompts]
    known = [one for one in found if one is not None]
    return statistics.median(known) if len(known) == len(found) else None


def _log_ratio(over: float | None, under: float | None) -> float | None:
    return math.log(over / under) if over and under else None


def _part(part: float | None, loss: float) -> float | None:
    return None if part is None or loss <= 0 else round(100 * part / loss, 1)
