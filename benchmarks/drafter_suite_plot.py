"""The result of ``drafter_suite`` as a picture: rates of all modes, and how far proposals are accepted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

OWN, PEER = "#b5341c", "#31688e"


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Writes the PNG; needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 5.0), layout="constrained")
    rates, acceptance = figure.subplots(1, 2)
    _plot_rates(rates, report)
    _plot_acceptance(acceptance, report)
    for axis in (rates, acceptance):
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    conditions, text = report["conditions"], report["text"]
    measured = f"{text['prompts']} prompts, {text['tokens']} tokens"
    if report["text_measured"] == "before-loop":
        measured = f"{text['prompts_measured']} prompts, {text['tokens_measured']} tokens"
    figure.suptitle(
        f"{conditions['model']}, {report['draft']['kind']}, {report['suite']['name']}: {measured}, "
        f"{conditions['threads']} threads, {conditions['host']['cpu']}, "
        f"{conditions['started'][:10]}",
        fontsize=9,
    )
    figure.savefig(path, dpi=130, metadata={"Software": None})


def _plot_rates(axis: Any, report: Mapping[str, Any]) -> None:
    bars = [(mode["name"], mode["tokens_per_second"], OWN) for mode in report["modes"]]
    bars += [(peer["name"], peer["tokens_per_second"], PEER) for peer in report["llama_cpp"]]
    bars.sort(key=lambda bar: bar[1])
    drawn = axis.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    axis.bar_label(drawn, fmt="%.0f", padding=3, fontsize=8)
    axis.margins(x=0.1)  # room for the longest bar's label
    axis.tick_params(axis="y", labelsize=7)
    what = "text before any loop" if report["text_measured"] == "before-loop" else "whole answers"
    axis.set(xlabel=f"tokens per second, {what}", title="Writing")


def _plot_acceptance(axis: Any, report: Mapping[str, Any]) -> None:
    """Of each mode that drafts, with the intervals over prompts."""
    from matplotlib.ticker import MaxNLocator

    for mode in report["modes"]:
        places = [
            (place, one) for place, one in enumerate(mode["accepted_by_position"], 1) if one is not None
        ]
        if not places:
            continue
        values = [one["value"] for _, one in places]
        below = [one["value"] - one["low"] for _, one in places]
        above = [one["high"] - one["value"] for _, one in places]
        axis.errorbar(
            [place for place, _ in places], values, [below, above], marker="o", capsize=2, label=mode["name"]
        )
    axis.set(
        xlabel="place in the proposal", ylabel="accepted", title="Proposals accepted that far", ylim=(0, 1)
    )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(fontsize=7)
