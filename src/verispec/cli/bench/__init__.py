"""``verispec bench``: what a pass costs, what speculation brings, and how other engines do beside it."""

from __future__ import annotations

import typer

from verispec.cli.bench import decode, passes, peers

app = typer.Typer(
    name="bench", help="Measure passes, speculation and peers on this machine.", no_args_is_help=True
)
app.command("pass")(passes.command)
app.command("decode")(decode.command)
app.command("peers")(peers.command)
