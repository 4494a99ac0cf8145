"""``verispec bench peers``: other engines beside verispec."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from verispec.cli import generation_options as flags
from verispec.cli.bench.options import OutputOption, PlotOption, RowsOption, StrategiesOption
from verispec.cli.bench.report_file import check_report_path, write_report
from verispec.cli.number_list import parse_numbers
from verispec.cli.output import JsonOption, print_json, print_table


def command(
    model: flags.ModelArgument,
    peer_python: Annotated[
        list[str] | None,
        typer.Option(
            "--peer-python", help="NAME[@LABEL]=PATH: the Python that imports llama-cpp or transformers."
        ),
    ] = None,
    peer_binary: Annotated[
        list[str] | None, typer.Option("--peer-binary", help="NAME[@LABEL]=PATH of llama-server.")
    ] = None,
    rows: RowsOption = "1,4,8,16",
    contexts: Annotated[
        str, typer.Option("--contexts", help="Tokens in front of a pass, comma-separated.")
    ] = "256",
    suite: Annotated[str, typer.Option("--suite", help="Suite to write, or `none`.")] = "copy-heavy-12",
    strategies: StrategiesOption = "auto",
    turns: Annotated[
        int, typer.Option("--turns", min=1, help="Turns of every engine at each measurement.")
    ] = 5,
    threads: flags.ThreadsOption = None,
    output: OutputOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure llama.cpp, llama-server and transformers beside verispec, on the same file, in one run."""
    from verispec.artifacts.resolve import resolve_model
    from verispec.backends.native_plan import default_threads
    from verispec.bench.conditions import conditions
    from verispec.bench.peer_bench import CONTEXT, PeerBenchPlan, bench_peers
    from verispec.bench.peers.location import locate_peers
    from verispec.bench.strategy_setting import parse_settings
    from verispec.bench.suites import load_suite
    from verispec.cli.progress import CountBar
    from verispec.engine.loading import load

    check_report_path(output)
    located, missing = locate_peers(peer_python or [], peer_binary or [])
    plan = PeerBenchPlan(
        parse_numbers("rows", rows, int),
        parse_numbers("contexts", contexts, int),
        turns,
        None if suite == "none" else load_suite(suite),
        parse_settings(strategies),
    )
    count = threads or default_threads()
    with load(model, ctx=CONTEXT, threads=count) as loaded:
        facts = conditions(loaded, model)
        path = resolve_model(model).path
        with CountBar("peers") as bar:
            report = bench_peers(loaded, path, count, located, missing, plan, bar.stage)
    report["conditions"] = facts
    write_report(report, output)
    if plot is not None:
        from verispec.bench.plots import plot_peers

        plot_peers(report, plot)
    if as_json:
        print_json(report)
    else:
        _print_peers(report)


def _print_peers(report: dict[str, Any]) -> None:
    print_table(
        ("WHAT", "OURS", "THEIRS", "", "RATIO", "BEST CONFIGURATION OF THE PEER"),
        [
            (
                entry["what"],
                f"{entry['ours']:.2f}",
                f"{entry['theirs']:.2f}",
                entry["unit"],
                f"{entry['ratio']:.2f}x",
                entry["configuration"],
            )
            for entry in report["ratios"]
        ],
    )
    for entry in report["not_measured"]:
        typer.secho(
            f"not measured: {entry['peer']}: {entry['reason']}; {entry['remedy']}", fg=typer.colors.YELLOW
        )
