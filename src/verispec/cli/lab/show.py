"""``verispec lab show``: one experiment, lane, decision, or what else the ledger holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli.lab.candidate import print_candidate
from verispec.cli.lab.concurrency import print_company
from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.profile import print_profile
from verispec.cli.lab.quality import print_quality
from verispec.cli.output import JsonOption, print_json, printable_text

if TYPE_CHECKING:
    from verispec.lab.ledger.ledger import Ledger


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Of an experiment, a lane or what else `lab log` lists, or a record's digest."
        ),
    ],
    log: Annotated[bool, typer.Option("--log", help="Print the server's log of a lane.")] = False,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """What the ledger knows of it."""
    from verispec.cli.lab import experiment_text as text

    pages: dict[str, Callable[[dict[str, Any]], None]] = {
        "lane": text.print_lane,
        "decision": text.print_decision,
        "quality": print_quality,
        "profile": print_profile,
        "company": print_company,
        "candidate": print_candidate,
    }
    ledger = open_ledger(lab)
    record = _find(ledger, name)
    if log:
        digest = record.get("log")
        written = ledger.logs.get_bytes(digest, ".log") if digest else b""
        typer.echo(printable_text(written.decode(errors="replace")), nl=False)
    elif as_json:
        print_json(record)
    elif record["kind"] == "experiment":
        text.print_experiment(record)
        for digest in record["decisions"]:
            typer.echo("")
            text.print_decision(ledger.get(digest))
    elif record["kind"] in pages:
        pages[record["kind"]](record)
    else:
        print_json(record)


def _find(ledger: Ledger, name: str) -> dict[str, Any]:
    """An experiment's end or its beginning, a lane, or any record by its digest."""
    from verispec.lab.ledger.objects import LedgerError

    for kind in ("experiment", "lane", "experiment-begun", "lane-begun"):
        try:
            return ledger.find(name, kind)[1]
        except LedgerError:
            continue
    return ledger.find(name)[1]
