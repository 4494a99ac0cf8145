"""``verispec lab ui``: the ledger in a browser."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.output import JsonOption


def command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8090,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name that a loopback dashboard also answers to; may be repeated."),
    ] = None,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve pages that look at the ledger, on this machine alone unless told otherwise; they change nothing."""
    from verispec.errors import OptionError
    from verispec.lab.dashboard.serve import serve_dashboard
    from verispec.serving.origins import is_loopback

    if allow_host and not is_loopback(host):
        raise OptionError(
            f"--allow-host: expected a loopback --host, found {host!r}, which answers to any name"
        )
    ledger = open_ledger(lab)

    def ready(url: str) -> None:
        if as_json:
            typer.echo(json.dumps({"url": url, "ledger": str(ledger.home)}))
        else:
            typer.echo(f"the lab at {url}, ledger {ledger.home}")
        if not is_loopback(host):
            typer.echo(f"warning: anyone who can reach {host} port {port} can read this ledger", err=True)

    serve_dashboard(ledger, host, port, allow_host or [], ready)
