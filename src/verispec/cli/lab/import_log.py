"""``verispec lab import``: logs of other labs, read into lanes that ``lab analyse`` understands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from verispec.cli.lab.written import write_file
from verispec.cli.output import JsonOption, print_json, printable

app = typer.Typer(name="import", help="Read the log of another lab.", no_args_is_help=True)

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The log.", exists=True, dir_okay=False, readable=True)
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", help="Write the lanes to this file instead of the lab's own folder."),
]


@app.command("b70-csv")
def b70_csv(file: FileArgument, output: OutputOption = None, as_json: JsonOption = False) -> None:
    """Read a CSV file of lane summaries (experiment, table, gpu, variant, max_tokens, rates, note, run)."""
    from verispec.lab.home import lab_home
    from verispec.lab.imports.b70_csv import read_b70_csv

    log = read_b70_csv(file)
    target = output or lab_home() / "imports" / f"{file.stem}.json"
    write_file(json.dumps(log.as_dict(), indent=1) + "\n", target, "--output")
    faulty = [lane for lane in log.lanes if lane.faults]
    report = {
        "file": str(target),
        "sha256": log.digest,
        "lanes": len(log.lanes),
        "valid": len(log.valid),
        "controls": sum(lane.control for lane in log.valid),
        "faults": {lane.lane: list(lane.faults) for lane in faulty},
    }
    if as_json:
        print_json(report)
        return
    typer.echo(
        f"{report['lanes']} lanes, {report['valid']} valid, {report['controls']} of them controls: {target}"
    )
    for lane in faulty:
        typer.echo(f"  invalid: {printable(lane.lane)}: {', '.join(lane.faults)}")
