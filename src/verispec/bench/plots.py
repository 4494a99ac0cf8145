"""Plots of results, as PNG files; needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verispec.errors import UnsupportedError

OWN_COLOUR = "#b5341c"
PEER_COLOURS = ("#31688e", "#35b779", "#8f8f8f", "#6a51a3", "#d4a017", "#1f9e89", "#444444", "#9ecae1")


def plot_peers(report: Mapping[str, Any], path: Path) -> None:
    """Pass time by rows of every engine and, when a suite was written, its tokens per second."""
    written = sorted(report["writing"], key=lambda entry: entry["tokens_per_second"])
    figure, axes = _figure(2 if written else 1, (13.0, 5.0) if written else (7.0, 5.0))
    context, engines = next(iter(report["curves"].items()))
    colours = _colours([*engines, *(entry["engine"] for entry in written)])
    for name, curve in engines.items():
        axes[0].plot(
            [point["rows"] for point in curve],
            [point["seconds"] * 1e3 for point in curve],
            marker="o",
            color=colours[name],
            linewidth=2.5 if name.startswith("verispec") else 1.3,
            label=name,
        )
    axes[0].set(xlabel="rows in one pass", ylabel="milliseconds", title=f"One pass behind {context} tokens")
    axes[0].set_ylim(bottom=0)
    axes[0].legend(fontsize=7)
    if written:
        _plot_writing(axes[1], report["suite"]["name"], written, colours)
    figure.suptitle(_subtitle(report["conditions"]), fontsize=9)
    _save(figure, path)


def _plot_writing(
    axis: Any, suite: str, written: Sequence[Mapping[str, Any]], colours: Mapping[str, str]
) -> None:
    bars = axis.barh(
        [entry["engine"] for entry in written],
        [entry["tokens_per_second"] for entry in written],
        color=[colours[entry["engine"]] for entry in written],
    )
    axis.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
    axis.margins(x=0.1)  # room for the longest bar's label
    axis.set(xlabel="tokens per second, text before any loop", title=f"Writing the answers of {suite}")
    axis.tick_params(axis="y", labelsize=7)


def plot_pass_curves(reports: Sequence[Mapping[str, Any]], path: Path) -> None:
    """T(rows) of several models or contexts, with the time that reading the weights alone takes as a dashed line."""
    figure, (axis,) = _figure(1, (7.0, 5.0))
    for report, colour in zip(reports, (OWN_COLOUR, *PEER_COLOURS), strict=False):
        label = f"{report['conditions']['model']}, context {report['context']}"
        axis.plot(
            [point["rows"] for point in report["curve"]],
            [point["seconds"] * 1e3 for point in report["curve"]],
            marker="o",
            color=colour,
            label=label,
        )
        floor = report["bytes_read"] / report["bandwidth_bytes_per_second"] * 1e3
        axis.axhline(floor, color=colour, linestyle="--", linewidth=0.8)
    axis.set(
        xlabel="rows in one pass", ylabel="milliseconds", title="One pass; dashed: reading its weights alone"
    )
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    figure.suptitle(_subtitle(reports[0]["conditions"]), fontsize=9)
    _save(figure, path)


def _figure(columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedError(
            "matplotlib-missing", "plots need matplotlib", "`pip install 'verispec[bench]'` adds it"
        ) from error
    figure = Figure(figsize=size, layout="constrained")
    axes = [figure.add_subplot(1, columns, index + 1) for index in range(columns)]
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    return figure, axes


def _colours(names: Sequence[str]) -> dict[str, str]:
    peers = iter(PEER_COLOURS * len(names))
    return {name: OWN_COLOUR if name.startswith("verispec") else next(peers) for name in dict.fromkeys(names)}


def _subtitle(conditions: Mapping[str, Any]) -> str:
    host = conditions["host"]
    return (
        f"{conditions['model']}, {conditions['threads']} threads, {host['cpu']}, {conditions['started'][:10]}"
    )


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
