"""``verispec lab export``: the ledger for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.written import write_file
from verispec.cli.output import print_json
from verispec.errors import OptionError

if TYPE_CHECKING:
    from verispec.lab.ledger.ledger import Ledger

app = typer.Typer(
    name="export", help="Write the ledger for other programs. Nothing is sent anywhere.", no_args_is_help=True
)

OutputOption = Annotated[
    Path | None, typer.Option("--output", help="File to write (default: standard output).")
]
ExperimentOption = Annotated[str | None, typer.Option("--experiment", help="Of this experiment alone.")]
RowsOption = Annotated[bool, typer.Option("--rows", help="A line a prompt instead of a line a lane.")]


@app.command("csv")
def export_csv(
    output: OutputOption = None,
    rows: RowsOption = False,
    experiment: ExperimentOption = None,
    lab: LedgerOption = None,
) -> None:
    """Lanes, or prompts, as comma-separated values."""
    from verispec.lab.export.tables import csv_text

    _write(csv_text(_lines(open_ledger(lab), rows, experiment)), output)


@app.command("parquet")
def export_parquet(
    output: Annotated[Path, typer.Option("--output", help="File to write.")],
    rows: RowsOption = False,
    experiment: ExperimentOption = None,
    lab: LedgerOption = None,
) -> None:
    """Lanes, or prompts, as Parquet; needs pyarrow."""
    from verispec.lab.export.tables import write_parquet

    write_parquet(_lines(open_ledger(lab), rows, experiment), output)


@app.command("markdown")
def export_markdown(
    experiment: Annotated[str, typer.Argument(help="The experiment's id.")],
    output: OutputOption = None,
    lab: LedgerOption = None,
) -> None:
    """An experiment as a page of Markdown."""
    from verispec.lab.export.markdown import experiment_page

    _write(experiment_page(open_ledger(lab), experiment), output)


@app.command("mlflow")
def export_mlflow(
    tracking: Annotated[str, typer.Option("--tracking", help="Address of the tracking store.")],
    experiment: ExperimentOption = None,
    lab: LedgerOption = None,
) -> None:
    """Lanes as runs of MLflow; needs mlflow."""
    from verispec.lab.export.mlflow_runs import write_runs

    typer.echo(f"{write_runs(open_ledger(lab), tracking, experiment)} runs")


@app.command("localmaxxing")
def export_localmaxxing(
    lane: Annotated[str, typer.Argument(help="The lane's id.")],
    facts: Annotated[
        Path,
        typer.Option("--facts", help="TOML: hfId, backend, quantization, contextLength, notes, hardware."),
    ],
    lab: LedgerOption = None,
) -> None:
    """Show what would be submitted to LocalMaxxing for a lane, and check it. Exit status 1 when a check fails."""
    from verispec.lab.export.localmaxxing import payload, read_facts

    content, wrong = payload(open_ledger(lab), lane, read_facts(facts))
    print_json(content)
    for one in wrong:
        typer.secho(f"not ready: {one}", fg=typer.colors.RED, err=True)
    typer.echo("a dry run: nothing was sent; the site takes one submission in five minutes", err=True)
    if wrong:
        raise typer.Exit(1)


def _lines(ledger: Ledger, rows: bool, experiment: str | None) -> list[dict[str, object]]:
    from verispec.lab.export.tables import lane_lines, row_lines

    lines = list(row_lines(ledger, experiment) if rows else lane_lines(ledger, experiment))
    if not lines:
        raise OptionError("export: expected lanes in the ledger, found none")
    return lines


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_file(text, output, "--output")
