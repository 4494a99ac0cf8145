"""``verispec lab simulate``: the lab's decisions put to the test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli.lab import decision_options as flags
from verispec.cli.output import JsonOption, print_json, print_table


def command(
    bank: flags.BankOption = None,
    stage: Annotated[str, typer.Option("--stage", help="The cap of tokens.")] = "512",
    metrics: Annotated[
        str, typer.Option("--metrics", help="Metrics whose noise is used, comma-separated.")
    ] = "median",
    experiments: Annotated[
        int, typer.Option("--experiments", min=100, help="Simulated experiments of each kind.")
    ] = 4000,
    searches: Annotated[
        int, typer.Option("--searches", min=100, help="Simulated searches of 20 candidates.")
    ] = 4000,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", help="Keep the results in this file; what it holds already is not run again."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the results as this PNG (needs matplotlib).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate experiments without an effect, with one, and searches over noise; exit 1 when a promise is not kept."""
    from verispec.cli.progress import CountBar
    from verispec.lab.noise_bank import PUBLISHED, read_bank
    from verispec.lab.simulation.promises import promises
    from verispec.lab.simulation.study import Study, run_study

    banks = tuple(read_bank(bank or PUBLISHED, stage, metric) for metric in metrics.split(","))
    with CountBar("simulations") as bar:
        report = run_study(Study(banks, experiments, searches), output, bar.update)
    if plot is not None:
        from verispec.lab.simulation.plot import plot_study

        plot_study(report, plot)
    kept = promises(report)
    if as_json:
        print_json({**report, "promises": kept})
    else:
        _print(report, kept)
    if not all(one["kept"] for one in kept):
        raise typer.Exit(1)


def _print(report: dict[str, Any], kept: list[dict[str, Any]]) -> None:
    from verispec.lab.simulation.study import results

    print_table(
        ("promise", "share", "upper bound", "allowed", "kept"),
        [
            (
                one["name"],
                f"{one['share']:.2%}",
                f"{one['upper_95']:.2%}",
                f"{one['limit']:.0%}",
                _yes(one["kept"]),
            )
            for one in kept
        ],
    )
    typer.echo("")
    rows = []
    for cell in results(report, "effect"):
        result, parameters = cell["result"], cell["parameters"]
        fixed, twice = result["fixed_size"], result["always_valid"][1]
        rows.append(
            (
                f"{result['effect_percent']:g}%",
                parameters["metric"],
                parameters["noise"],
                f"{twice['power']:.0%}",
                f"{twice['mean_lanes']:.0f} of {twice['most_lanes']}",
                f"{fixed['power']:.0%}",
                str(fixed["lanes"]),
            )
        )
    print_table(("effect", "metric", "noise", "power", "lanes used", "testing once", "lanes"), rows)


def _yes(kept: bool) -> str:
    return "yes" if kept else "NO"
