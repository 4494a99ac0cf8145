"""``verispec lab report``: an experiment as one page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.written import write_file


def command(
    out: Annotated[
        Path, typer.Option("--out", help="HTML file to write; its folder is made where it is missing.")
    ],
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPERIMENT", help="Its id or name; the newest by default.", show_default=False
        ),
    ] = None,
    lab: LedgerOption = None,
) -> None:
    """Write one self-contained HTML file: verdict and reasons, lanes, prompts, factors, gate, identity, power."""
    from verispec.lab.report.page import report_page

    page = report_page(open_ledger(lab), experiment)
    write_file(page, out, "--out")
    typer.echo(f"{out}: {len(page.encode()) / 1000:.0f} kB")
