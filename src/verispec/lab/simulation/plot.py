"""A study as one picture; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from verispec.errors import UnsupportedError
from verispec.lab.simulation.promises import LIMIT
from verispec.lab.simulation.study import results

OURS, OTHER, FAINT = "#b5341c", "#31688e", "#8f8f8f"


def plot_study(report: dict[str, Any], path: Path) -> None:
    """False claims, lanes used by effect, and what a search over noise finds; the first metric of the study."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedError(
            "matplotlib-missing", "plots need matplotlib", "`pip install 'verispec[bench]'` adds it"
        ) from error
    metric = next(iter(report["cells"].values()))["parameters"]["metric"]
    figure = Figure(figsize=(17, 5.2), layout="constrained")
    axes = figure.subplots(1, 3)
    _false_claims(axes[0], report, metric)
    _lanes(axes[1], report, metric)
    _search(axes[2], report, metric)
    deviation = results(report, "no effect", metric=metric)[0]["parameters"]["lane_deviation_percent"]
    figure.suptitle(
        f"Simulated experiments at the noise of {report['source']}: one lane's {metric} varies by {deviation:.2f}%"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _false_claims(axis: Any, report: dict[str, Any], metric: str) -> None:
    cells = results(report, "no effect", metric=metric)
    names = [f"{cell['parameters']['shape']},\n{cell['parameters']['noise']} noise" for cell in cells]
    for place, (what, colour, label) in enumerate(
        (
            ("false_improvement", OURS, "always-valid interval"),
            ("t_test_at_every_look", FAINT, "t test at 5%, looked at as often"),
        )
    ):
        shares = [100 * cell["result"][what]["share"] for cell in cells]
        axis.barh(
            [row + 0.38 * place for row in range(len(cells))], shares, height=0.36, color=colour, label=label
        )
    axis.set_yticks([row + 0.19 for row in range(len(cells))], names, fontsize=8)
    axis.axvline(100 * LIMIT, color="black", linestyle="--", linewidth=1)
    axis.set(xlabel="experiments, %", ylim=(-0.5, len(cells) + 0.9), title="No effect, called an improvement")
    axis.legend(fontsize=8, loc="upper right")


def _lanes(axis: Any, report: dict[str, Any], metric: str) -> None:
    for known, colour in (("unknown", OURS), ("bank", OTHER)):
        cells = results(report, "effect", metric=metric, noise=known)
        effects = [cell["result"]["effect_percent"] for cell in cells]
        budgets = [cell["result"]["always_valid"][1] for cell in cells]
        axis.plot(
            effects,
            [one["mean_lanes"] for one in budgets],
            marker="o",
            color=colour,
            label=f"always-valid, noise {known}: lanes used on average",
        )
        for effect, one in zip(effects, budgets, strict=True):
            offset = (4, 8) if known == "unknown" else (-30, -14)
            axis.annotate(
                f"{one['power']:.0%}",
                (effect, one["mean_lanes"]),
                xytext=offset,
                textcoords="offset points",
                fontsize=8,
                color=colour,
            )
    cells = results(report, "effect", metric=metric, noise="unknown")
    axis.plot(
        [cell["result"]["effect_percent"] for cell in cells],
        [cell["result"]["fixed_size"]["lanes"] for cell in cells],
        marker="s",
        color=FAINT,
        label="paired t test looked at once: lanes for 80% power",
    )
    axis.set(
        xlabel="true effect, %",
        ylabel="lanes, both arms",
        yscale="log",
        xlim=(0.6, 5.5),
        ylim=(6, 400),
        title="Lanes to an answer; power within twice the fixed size",
    )
    axis.legend(fontsize=8)


def _search(axis: Any, report: dict[str, Any], metric: str) -> None:
    cell = results(report, "best of 20", metric=metric, noise="unknown", shape="normal")[0]["result"]
    bars = {
        "t test of the best one": (cell["t_test_of_the_best"], FAINT),
        "any improvement,\nnot corrected": (cell["improvement_on_screen_uncorrected"], FAINT),
        "any improvement,\ncorrected for 20": (cell["improvement_on_screen_corrected"], OURS),
        "best one on fresh lanes:\nimprovement": (cell["improvement_on_fresh_data"], OURS),
        "best one on fresh lanes:\npromoted": (cell["promoted"], OURS),
    }
    axis.barh(
        list(bars),
        [100 * one["share"] for one, _ in bars.values()],
        color=[colour for _, colour in bars.values()],
    )
    axis.bar_label(axis.containers[0], fmt="%.1f%%", padding=3, fontsize=8)
    axis.margins(x=0.12)
    axis.axvline(100 * LIMIT, color="black", linestyle="--", linewidth=1)
    winner = cell["winner"]
    axis.set(
        xlabel="searches, %",
        title=f"Best of 20 equals: measured {winner['measured_percent']:+.1f}%, "
        f"shrunken {winner['shrunken_percent']:+.1f}%",
    )
    axis.tick_params(axis="y", labelsize=8)
