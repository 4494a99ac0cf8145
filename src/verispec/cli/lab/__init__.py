"""``verispec lab``: measure strictly, decide honestly, for any engine. One file a command; each is registered below."""

from __future__ import annotations

import typer

from verispec.cli.lab import analyse, import_log, plan, simulate

app = typer.Typer(
    name="lab",
    help="Strict measurements and honest decisions about any engine.",
    no_args_is_help=True,
)
app.add_typer(import_log.app)
app.command("analyse")(analyse.command)
app.command("plan")(plan.command)
app.command("simulate")(simulate.command)
