"""``verispec bench pass``: one pass by its rows."""

from __future__ import annotations

from typing import Annotated

import typer

from verispec.cli import generation_options as flags
from verispec.cli.bench.options import OutputOption, PlotOption, RowsOption
from verispec.cli.bench.report_file import check_report_path, write_report
from verispec.cli.number_list import parse_numbers
from verispec.cli.output import JsonOption, print_json, print_table, size_text

DEFAULT_ROWS = "1,2,3,4,6,8,12,16"


def command(
    model: flags.ModelArgument,
    rows: RowsOption = DEFAULT_ROWS,
    context: Annotated[int, typer.Option("--context", min=0, help="Tokens in front of the pass.")] = 256,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Passes of each row count.")] = 50,
    threads: flags.ThreadsOption = None,
    output: OutputOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Time one pass by its rows, beside a streaming read of as many bytes as the weights have."""
    from verispec.bench.conditions import conditions
    from verispec.bench.pass_curve import measure_pass_curve
    from verispec.engine.loading import load

    check_report_path(output)
    counts = parse_numbers("rows", rows, int)
    with load(model, threads=threads) as loaded:
        facts = conditions(loaded, model)
        curve = measure_pass_curve(loaded, counts, context, repeats).as_dict()
    report = {**curve, "conditions": facts}
    write_report(report, output)
    if plot is not None:
        from verispec.bench.plots import plot_pass_curves

        plot_pass_curves([report], plot)
    if as_json:
        print_json(report)
        return
    bandwidth = size_text(report["bandwidth_bytes_per_second"])
    typer.echo(
        f"{size_text(report['bytes_read'])} read a pass; a streaming read gets {bandwidth} a second here"
    )
    print_table(
        ("ROWS", "MILLISECONDS", "MEDIAN", "T/T(FIRST)", "OF BANDWIDTH"),
        [
            (
                str(point["rows"]),
                f"{point['seconds'] * 1e3:.3f}",
                f"{point['median_seconds'] * 1e3:.3f}",
                f"{point['ratio']:.2f}",
                f"{point['share_of_bandwidth']:.0%}",
            )
            for point in report["curve"]
        ],
    )
