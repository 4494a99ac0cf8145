"""Who watches lanes while they run: nobody when JSON is wanted, the terminal otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verispec.lab.experiment.observer import Observer


def observer(silent: bool) -> Observer:
    """Imports what it gives, and nothing before."""
    from verispec.lab.experiment.observer import Observer

    if silent:
        return Observer()
    from verispec.cli.lab.watching import TerminalObserver

    return TerminalObserver()
