"""``verispec lab report``: an experiment as one page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger


def command(
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")],
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
    out.write_text(page, encoding="utf-8")
    typer.echo(f"{out}: {len(page.encode()) / 1000:.0f} kB")
