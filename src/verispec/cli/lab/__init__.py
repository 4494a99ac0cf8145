"""``verispec lab``: measure strictly, decide honestly, for any engine. One file a command; each is registered below."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="lab",
    help="Strict measurements and honest decisions about any engine.",
    no_args_is_help=True,
)
