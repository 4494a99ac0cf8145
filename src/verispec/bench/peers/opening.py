"""From a located peer to running subjects, one a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from verispec.bench.peers.catalog import Configuration
from verispec.bench.peers.driver_process import DriverProcess
from verispec.bench.peers.llama_server import LlamaServer
from verispec.bench.peers.location import NotMeasured, PeerLocation
from verispec.bench.subject import Writer
from verispec.errors import BackendError


@dataclass(frozen=True, slots=True)
class PeerTarget:
    """What every peer is opened with: the same file, context and threads as ours."""

    model: str
    context: int
    threads: int


def open_peer(
    location: PeerLocation, target: PeerTarget, configurations: tuple[Configuration, ...] | None = None
) -> tuple[list[Writer], list[NotMeasured]]:
    """One writer a configuration. A configuration that fails to open is reported, and the others go on."""
    writers: list[Writer] = []
    failed: list[NotMeasured] = []
    for configuration in configurations or location.kind.configurations:
        try:
            writers.append(_open(location, target, configuration))
        except BackendError as error:
            failed.append(
                NotMeasured(f"{location.name} ({configuration.label})", str(error), location.kind.install)
            )
    return writers, failed


def _open(location: PeerLocation, target: PeerTarget, configuration: Configuration) -> Writer:
    name = f"{location.name} ({configuration.label})"
    if not location.kind.module:
        return LlamaServer(
            name, location.program, target.model, target.context, target.threads, configuration.arguments
        )
    return DriverProcess(
        name,
        location.kind.name,
        configuration.speculates,
        location.program,
        location.kind.engine,
        target.model,
        {"context": target.context, "threads": target.threads, **configuration.settings},
    )
