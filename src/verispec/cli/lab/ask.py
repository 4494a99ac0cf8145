"""``verispec lab ask``: has this been tried, and what came of it?"""

from __future__ import annotations

from typing import Annotated

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.wording import day_text, interval_text, percent_text
from verispec.cli.output import JsonOption, print_json


def command(
    question: Annotated[str, typer.Argument(help='Words that were set or said, such as "unroll 6".')],
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Every candidate of a past experiment in which all words stand. Exit status 1 when there is none."""
    from verispec.lab.questions import ask

    found = ask(open_ledger(lab), question)
    if as_json:
        print_json([one.as_dict() for one in found])
    for one in found if not as_json else ():
        typer.echo(f"{day_text(one.began)}  {one.arm} in {one.name} ({one.experiment}): {one.verdict}")
        if one.effect_percent is not None and one.interval_percent is not None:
            interval = interval_text(one.interval_percent)
            lanes = f"{one.control_lanes} + {one.candidate_lanes} lanes"
            typer.echo(f"  {percent_text(one.effect_percent)} ({interval}), {lanes}")
        if one.arguments:
            typer.echo(f"  {one.arguments}")
        for reason in one.reasons[:1]:
            typer.echo(f"  {reason}")
    if not found:
        if not as_json:
            typer.echo("not tried yet")
        raise typer.Exit(1)
