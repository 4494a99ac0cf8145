"""What a comparison amounts to: for every number the best of each peer, and the ratio to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.bench.comparison import Comparison
from verispec.bench.own_engine import ENGINE
from verispec.bench.repetition import repeated_share
from verispec.bench.samples import Samples
from verispec.bench.subject import DecodeRun


def ratio_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One entry a number and peer; ``ratio`` over 1 means that ours is faster.

    Of a peer's builds and configurations the best one counts, number by number. Passes and prompts go by the least of
    their seconds, writing by tokens per second over the suite: plain against plain, and our every strategy against
    the peer's best way to speculate.
    """
    rows: list[dict[str, Any]] = []
    for context, table in comparison.passes.items():
        counts = sorted({count for by_rows in table.values() for count in by_rows})
        for count in counts:
            measured = {name: by_rows[count] for name, by_rows in table.items() if count in by_rows}
            rows += _seconds_rows(comparison, f"pass of {count} rows behind {context}", measured)
    rows += _seconds_rows(comparison, "prompt", comparison.prompt)
    return rows + _writing_rows(comparison)


def curves(comparison: Comparison) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Context -> engine -> rows with their seconds and their ratio to that engine's own fewest rows, on minima."""
    shaped: dict[str, dict[str, list[dict[str, float]]]] = {}
    for context, table in comparison.passes.items():
        shaped[str(context)] = {
            name: [
                {
                    "rows": count,
                    "seconds": samples.minimum,
                    "median_seconds": samples.median,
                    "ratio": round(samples.minimum / by_rows[min(by_rows)].minimum, 4),
                }
                for count, samples in sorted(by_rows.items())
            ]
            for name, by_rows in table.items()
            if by_rows
        }
    return shaped


def writing(comparison: Comparison) -> list[dict[str, Any]]:
    """Every engine's own rate on the suite, with what it measured."""
    facts = []
    for name, record in comparison.writers.items():
        last = [runs[-1] for runs in record.runs.values()]
        drafted, accepted = sum(run.drafted or 0 for run in last), sum(run.accepted or 0 for run in last)
        passes = [run.passes for run in last if run.passes]
        facts.append(
            {
                "engine": name,
                "tokens_per_second": round(record.rate(), 2),
                "prompts": len(record.runs),
                "tokens": sum(record.measured[prompt] for prompt in record.runs),
                "repeated_8grams": round(_repeated(last), 4),
                "passes": sum(passes) if len(passes) == len(last) else None,
                "drafted": drafted,
                "accepted": accepted,
            }
        )
    return facts


def _repeated(runs: Sequence[DecodeRun]) -> float:
    """The share of repeated 8-grams in several answers, each weighing as much as it has tokens."""
    tokens = sum(len(run.tokens) for run in runs)
    return sum(repeated_share(run.tokens) * len(run.tokens) for run in runs) / tokens if tokens else 0.0


def _seconds_rows(comparison: Comparison, what: str, measured: Mapping[str, Samples]) -> list[dict[str, Any]]:
    least = {name: samples.minimum for name, samples in measured.items()}
    ours = [value for name, value in least.items() if comparison.engines[name].engine == ENGINE]
    if not ours:
        return []
    best = _best_by_engine(comparison, {name: -value for name, value in least.items()})
    return [
        {
            "what": what,
            "unit": "ms",
            "peer": engine,
            "configuration": name,
            "ours": round(min(ours) * 1e3, 3),
            "theirs": round(least[name] * 1e3, 3),
            "ratio": round(least[name] / min(ours), 3),
        }
        for engine, name in best.items()
    ]


def _writing_rows(comparison: Comparison) -> list[dict[str, Any]]:
    rates = {name: record.rate() for name, record in comparison.writers.items() if record.runs}
    rows = []
    for mine in (name for name in rates if comparison.engines[name].engine == ENGINE):
        speculates = comparison.engines[mine].speculates
        alike = {
            name: rate for name, rate in rates.items() if comparison.engines[name].speculates == speculates
        }
        for engine, name in _best_by_engine(comparison, alike).items():
            rows.append(
                {
                    "what": f"writing, {mine}",
                    "unit": "tokens/s",
                    "peer": engine,
                    "configuration": name,
                    "ours": round(rates[mine], 2),
                    "theirs": round(rates[name], 2),
                    "ratio": round(rates[mine] / rates[name], 3),
                }
            )
    return rows


def _best_by_engine(comparison: Comparison, values: Mapping[str, float]) -> dict[str, str]:
    """Peer -> the name of its configuration with the greatest value."""
    best: dict[str, str] = {}
    for name, value in values.items():
        engine = comparison.engines[name].engine
        if engine != ENGINE and (engine not in best or value > values[best[engine]]):
            best[engine] = name
    return best
