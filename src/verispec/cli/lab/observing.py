"""How commands run lanes: watched on the terminal or in silence, one at a time on a device, the host sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from verispec.lab.experiment.observer import Observer
    from verispec.lab.lane.run import LaneRunner


def observer(silent: bool) -> Observer:
    """Nobody watches when JSON is wanted, the terminal otherwise."""
    from verispec.lab.experiment.observer import Observer

    if silent:
        return Observer()
    from verispec.cli.lab.watching import TerminalObserver

    return TerminalObserver()


def careful_lanes() -> LaneRunner:
    """Lanes that claim their device on this machine, with telemetry of the host beside them."""
    from verispec.lab.lane.device_claims import claiming
    from verispec.lab.lane.telemetry import with_telemetry

    def waiting(device: str) -> None:
        typer.echo(f"{device}: another lane runs there; waiting until it ends", err=True)

    return claiming(with_telemetry(), waiting)
