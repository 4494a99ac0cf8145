"""A lane in a few numbers: each metric over the prompts, the two factors with intervals, the rate over all requests."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from verispec.lab.metrics.rates import RATES, row_metrics

FACTORS = ("tokens_per_pass", "seconds_per_pass")
INFERRED = "passes are inferred (tokens - accepted): the server does not count them"
"""What stands beside the two factors where that is so."""
BY_POSITION = "accepted_by_position"
SUMMARISED = (*RATES, "ttft", "tokens", *FACTORS)
RESAMPLES = 2000
LEVEL = 0.95


def lane_summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All summaries of a lane's rows; rows with a fault are left out, which the gate does not forgive.

    ``request_wide`` is the sum of tokens over the sum of seconds from request to last token: a rate of its own, never
    to be compared with the steady ones.
    """
    sound = [row for row in rows if row.get("fault") is None]
    measured = [(row["class"], row_metrics(row)) for row in sound]
    summary: dict[str, Any] = {
        name: _distribution([(kind, getattr(metrics, name)) for kind, metrics in measured])
        for name in SUMMARISED
    }
    for name in FACTORS:
        if summary[name] is not None:
            values = [getattr(metrics, name) for _, metrics in measured]
            summary[name]["mean_interval"] = _mean_interval([one for one in values if one is not None])
    tokens = sum(metrics.tokens for _, metrics in measured)
    seconds = sum(metrics.seconds or 0.0 for _, metrics in measured)
    return {
        "rows": len(rows),
        "sound_rows": len(sound),
        **summary,
        "request_wide": {"tokens": tokens, "seconds": seconds, "rate": tokens / seconds if seconds else None},
        "passes": pass_totals(sound),
        **({"passes_inferred": True} if passes_inferred(sound) else {}),
        **_by_position(sound),
    }


def passes_inferred(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the passes of any row are what should follow from its tokens, and not what the server counted."""
    return any(row.get("passes_inferred") for row in rows)


def pass_totals(rows: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Sums of the server's own counts over the rows; None when it counts nothing, or not on every row."""
    counts = [row.get("counts") or {} for row in rows]
    names = set.intersection(*(set(one) for one in counts)) if counts else set()
    return {name: sum(one[name] for one in counts) for name in sorted(names)} or None


def _by_position(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """In how many passes of the lane each place of a proposal was accepted, if every row tells it."""
    told = [row[BY_POSITION] for row in rows if BY_POSITION in row]
    if not told or len(told) < len(rows):
        return {}
    return {BY_POSITION: [sum(counts) for counts in zip_longest(*told, fillvalue=0)]}


def _distribution(values: Sequence[tuple[str, float | None]]) -> dict[str, Any] | None:
    """None when any row lacks the value: a median over the prompts that happened to have one says nothing."""
    numbers = [value for _, value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    kinds: dict[str, list[float]] = {}
    for kind, value in values:
        kinds.setdefault(kind, []).append(float(value or 0.0))
    return {
        "median": statistics.median(numbers),
        "p10": float(np.quantile(numbers, 0.10)),  # linear interpolation
        "mean": statistics.fmean(numbers),
        "min": min(numbers),
        "max": max(numbers),
        "sd": statistics.stdev(numbers) if len(numbers) > 1 else None,
        "median_of_class_medians": statistics.median(statistics.median(one) for one in kinds.values()),
    }


def _mean_interval(values: Sequence[float]) -> list[float]:
    """A bootstrap interval of the mean over prompts, resampled with a fixed seed so that it can be derived again."""
    sample = np.asarray(values, float)
    means = sample[np.random.default_rng(0).integers(0, len(sample), (RESAMPLES, len(sample)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return [float(low), float(high)]
