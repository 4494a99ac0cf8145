"""The flag that says which ledger; shared by the commands that read or write one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from verispec.lab.ledger.ledger import Ledger

LedgerOption = Annotated[
    Path | None,
    typer.Option("--lab", help="Folder of the ledger (default: VERISPEC_LAB, or one in the user's data)."),
]


def open_ledger(folder: Path | None) -> Ledger:
    """The ledger in ``folder``, or where it is by default; made when it is first written to."""
    from verispec.lab.home import lab_home
    from verispec.lab.ledger.ledger import Ledger

    return Ledger(lab_home(folder))
