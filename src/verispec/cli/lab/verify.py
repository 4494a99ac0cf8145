"""``verispec lab verify``: does the ledger say what its raw rows give?"""

from __future__ import annotations

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.output import JsonOption, print_json


def command(lab: LedgerOption = None, as_json: JsonOption = False) -> None:
    """Check every digest and the journal's chain, and derive every summary, gate, decision and verdict again.

    Exit status 1 when something does not hold.
    """
    from verispec.cli.progress import CountBar
    from verispec.lab.verification import verify

    with CountBar("verifying") as bar:
        result = verify(open_ledger(lab), bar.update)
    if as_json:
        print_json(
            {
                "holds": result.holds,
                "head": result.head,
                "records": result.records,
                "findings": [{"where": one.where, "what": one.what} for one in result.findings],
                "interrupted": list(result.interrupted),
                "unnamed": list(result.unnamed),
            }
        )
    else:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(result.records.items()))
        typer.echo(f"{'holds' if result.holds else 'DOES NOT HOLD'}: {counts or 'nothing recorded yet'}")
        if result.head:
            typer.echo(f"  head of the journal {result.head}")
        for one in result.findings:
            typer.secho(f"  {one.where[:12]}: {one.what}", fg=typer.colors.RED)
        for lane in result.interrupted:
            typer.echo(f"  lane {lane} was begun and never finished")
        if result.unnamed:
            typer.echo(
                f"  {len(result.unnamed)} records were being written when it was killed; the next run names them"
            )
    if not result.holds:
        raise typer.Exit(1)
