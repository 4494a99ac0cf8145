"""What the runs of ``server_throughput`` come to: a table, a plot and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

OWN = "verispec"


def summarise(conditions: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians over the repeats by model, setting and streams; ratios of ours to the best peer; runs without texts."""
    rows = [_row(key, group) for key, group in _grouped(runs).items() if key[2] is not None]
    arrivals = [_arrival(key, group) for key, group in _grouped(runs).items() if key[2] is None]
    kept = [{name: value for name, value in run.items() if name != "texts"} for run in runs]
    return {
        "conditions": dict(conditions),
        "throughput": rows,
        "ratios": _ratios(rows),
        "same_text_as_off": _same_text(runs),
        "long_prompt_arrives": arrivals,
        "failed": [run for run in kept if "failed" in run],
        "runs": kept,
    }


def _grouped(runs: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        if "failed" not in run:
            groups.setdefault((run["model"], run["setting"], run["streams"]), []).append(run)
    return groups


def _row(key: tuple[Any, ...], group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rates = [run["tokens_per_second"] for run in group]
    first = sorted(seconds for run in group for seconds in run["first_text_seconds"])
    return {
        "model": key[0],
        "setting": key[1],
        "streams": key[2],
        "tokens_per_second": statistics.median(rates),
        "tokens_per_second_range": [min(rates), max(rates)],
        "first_text_seconds": {
            "median": statistics.median(first),
            "p95": first[min(len(first) - 1, int(0.95 * len(first)))],
            "max": first[-1],
        },
        "looping_share": group[0]["looping_share"],
        "repeats": len(group),
    }


def _arrival(key: tuple[Any, ...], group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def median(*path: str) -> float | None:
        values: list[Any] = list(group)
        for name in path:
            values = [value.get(name) for value in values if value]
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    return {
        "model": key[0],
        "setting": key[1],
        "long_first_text_seconds": median("long_first_text_seconds"),
        "short_first_text_seconds": median("short_first_text_seconds"),
        "gap_before_seconds": {name: median("gap_before_seconds", name) for name in ("median", "max")},
        "gap_meanwhile_seconds": {name: median("gap_meanwhile_seconds", name) for name in ("median", "max")},
        "repeats": len(group),
    }


def _ratios(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Ours over the peer: off over its best without speculation, and our best over its best of all."""
    found = []
    for model, streams in dict.fromkeys((row["model"], row["streams"]) for row in rows):
        here = {
            row["setting"]: row["tokens_per_second"]
            for row in rows
            if (row["model"], row["streams"]) == (model, streams)
        }
        ours = {name: rate for name, rate in here.items() if name.startswith(OWN)}
        peers = {name: rate for name, rate in here.items() if not name.startswith(OWN)}
        plain = [rate for name, rate in peers.items() if "ngram" not in name]
        if ours and plain:
            found.append(
                {
                    "model": model,
                    "streams": streams,
                    "off_over_off": ours.get(f"{OWN} off", 0.0) / max(plain),
                    "best_over_best": max(ours.values()) / max(peers.values()),
                }
            )
    return found


def _same_text(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Of each setting's answers, how many equal those of its first run on one stream without speculation."""
    told = [run for run in runs if "texts" in run]
    counts: dict[str, list[int]] = {}
    for run in told:
        name = run["setting"]
        engine = name.split(" ")[0]
        alone = next(
            (
                one
                for one in told
                if one["model"] == run["model"] and one["setting"].startswith(f"{engine} off")
            ),
            None,
        )
        if alone is not None:
            count = counts.setdefault(name, [0, 0])
            count[0] += sum(a == b for a, b in zip(run["texts"], alone["texts"], strict=True))
            count[1] += len(run["texts"])
    return {name: f"{same} of {total}" for name, (same, total) in counts.items()}


def table(report: Mapping[str, Any]) -> str:
    """For people: throughput, then what a long prompt does to the others."""
    names = {model["file"]: model["name"] for model in report["conditions"]["models"]}
    lines = [
        "| model | server | streams | tokens/s | range | TTFT median | p95 | max | looping |",
        "|" + "---|" * 9,
    ]
    for row in report["throughput"]:
        low, high = row["tokens_per_second_range"]
        first = row["first_text_seconds"]
        lines.append(
            f"| {names[row['model']]} | {row['setting']} | {row['streams']} | {row['tokens_per_second']:.0f} | "
            f"{low:.0f} to {high:.0f} | {first['median']:.3f} | {first['p95']:.3f} | {first['max']:.3f} | "
            f"{row['looping_share']:.0%} |"
        )
    lines += ["", "| model | streams | off over off | best over best |", "|" + "---|" * 4]
    for ratio in report["ratios"]:
        lines.append(
            f"| {names[ratio['model']]} | {ratio['streams']} | {ratio['off_over_off']:.2f} | "
            f"{ratio['best_over_best']:.2f} |"
        )
    lines += [
        "",
        "| model | server | long prompt's TTFT | short one's behind it | longest gap before | meanwhile |",
        "|" + "---|" * 6,
    ]
    for one in report["long_prompt_arrives"]:
        lines.append(
            f"| {names[one['model']]} | {one['setting']} | {_seconds(one['long_first_text_seconds'])} | "
            f"{_seconds(one['short_first_text_seconds'])} | {_seconds(one['gap_before_seconds']['max'])} | "
            f"{_seconds(one['gap_meanwhile_seconds']['max'])} |"
        )
    lines += ["", f"same text as alone: {report['same_text_as_off']}"]
    lines += [f"FAILED: {one['model']} {one['setting']} {one['failed']}" for one in report["failed"]]
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Tokens per second by streams, one panel a model."""
    from matplotlib.figure import Figure

    models = report["conditions"]["models"]
    figure = Figure(figsize=(6.5 * len(models), 5.0), layout="constrained")
    settings = list(dict.fromkeys(row["setting"] for row in report["throughput"]))
    for number, model in enumerate(models):
        axis = figure.add_subplot(1, len(models), number + 1)
        for setting in settings:
            rows = [r for r in report["throughput"] if (r["model"], r["setting"]) == (model["file"], setting)]
            own = setting.startswith(OWN)
            axis.plot(
                [row["streams"] for row in rows],
                [row["tokens_per_second"] for row in rows],
                marker="o",
                linewidth=2.5 if own else 1.3,
                linestyle="-" if "off" in setting else "--",
                label=setting,
            )
        axis.set(xlabel="streams at once", ylabel="tokens per second", title=model["name"])
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    conditions = report["conditions"]
    figure.suptitle(
        f"{conditions['slots']} slots, {conditions['max_tokens']} tokens, {conditions['threads']} threads, "
        f"{conditions['host']['cpu']}, {conditions['started'][:10]}",
        fontsize=9,
    )
    figure.savefig(path, dpi=130, metadata={"Software": None})
