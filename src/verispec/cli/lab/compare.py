"""``verispec lab compare``: two lanes or arms beside each other."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.wording import interval_text, percent_text
from verispec.cli.output import JsonOption, print_json, print_table
from verispec.lab.wording import counted

MOST = 40

LaneArgument = Annotated[
    str, typer.Argument(help="A lane's id, or EXPERIMENT:ARM[:STAGE]; without STAGE the last that compares.")
]


def command(
    first: LaneArgument,
    second: LaneArgument,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """The second against the first: what differs in identity and output, how fast, and by which factor.

    It decides nothing: two lanes are no experiment. Exit status 1 when outputs differ.
    """
    from verispec.lab.comparison import compare, lanes_called

    ledger = open_ledger(lab)
    result = compare(lanes_called(ledger, first), lanes_called(ledger, second))
    if as_json:
        print_json(result)
    else:
        _print(result)
    if result["outputs"]["exactness"] == "differs":
        raise typer.Exit(1)


def _print(result: dict[str, Any]) -> None:
    from verispec.cli.lab.experiment_text import print_outputs
    from verispec.lab.metrics.summary import INFERRED

    typer.echo(f"{_lanes(result['places']['second'])}\nagainst\n{_lanes(result['places']['first'])}")
    for line in result["invalid"]:
        typer.secho(f"INVALID  {line}", fg=typer.colors.RED)
    for line in result["comparable"]:
        typer.secho(f"not comparable: {line}", fg=typer.colors.RED)
    print_outputs(result["outputs"])
    typer.echo("")
    print_table(
        ("mean of medians", "first", "second", "change"),
        [
            (name, _number(one["first"]), _number(one["second"]), percent_text(one["change_percent"]))
            for name, one in result["metrics"].items()
        ],
    )
    for one in result["factors"] or ():
        interval = interval_text(one["interval_percent"])
        typer.echo(f"{one['name']}: {percent_text(one['change_percent'])} ({interval})")
    if result["factors"] and result["passes_inferred"]:
        typer.echo(INFERRED)
    typer.echo(f"\n{counted(len(result['identity']), 'difference')} of identity")
    for path, (left, right) in list(result["identity"].items())[:MOST]:
        typer.echo(f"  {path}: {_change(left, right)}")


def _lanes(places: list[dict[str, str]]) -> str:
    """A line for each stage of an arm: lanes of different stages are not alike."""
    groups: dict[str, list[str]] = {}
    for one in places:
        groups.setdefault(f"{one['arm']}, {one['stage']} of {one['experiment']}", []).append(one["lane"])
    return "\n".join(f"  {place}: {', '.join(lanes)}" for place, lanes in groups.items())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _change(left: Any, right: Any) -> str:
    """What one has and the other has not; of two lists, such as command lines, only the parts in which they differ."""
    if isinstance(left, list) and isinstance(right, list):
        gone = [str(one) for one in left if one not in right]
        new = [str(one) for one in right if one not in left]
        if gone or new:
            return f"{_short(' '.join(gone)) or 'nothing'} -> {_short(' '.join(new)) or 'nothing'}"
    return f"{_short(left)} -> {_short(right)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
