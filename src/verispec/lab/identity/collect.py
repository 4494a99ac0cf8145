"""The identity of a lane: everything that makes it comparable with another, as observed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil

from verispec.lab.identity.checkout import checkout
from verispec.lab.identity.digests import path_digest
from verispec.lab.identity.environment import package_files, recorded_variables
from verispec.lab.identity.machine import machine_facts
from verispec.lab.identity.packages import package_digests, package_folders
from verispec.lab.identity.process import ObservedProcess, observe
from verispec.lab.identity.report import ServerReport
from verispec.lab.launch.server import ServerProcess
from verispec.lab.secrets import arguments_shown
from verispec.lab.targets.source import Source
from verispec.lab.targets.target import Target

Identity = dict[str, Any]

REQUIRED = (
    "binary", "libraries_sha256", "arguments", "environment", "affinity", "device", "weights", "template", "version",
    "options", "model", "host", "load_at_start",
)  # fmt: skip
"""What every lane must know; ``draft``, ``source`` and ``packages`` are needed where the target has them."""


def collect_identity(
    target: Target, server: ServerProcess, report: ServerReport, load_at_start: list[float]
) -> tuple[Identity, ObservedProcess | None]:
    """What could be observed of a running server; what could not is None. Never raises for a missing fact."""
    try:
        process = observe(server.processes(), server.port)
    except (psutil.Error, OSError, IndexError):
        process = None
    facts = {} if process is None else _process_facts(target, server, process)
    identity = {
        "target": target.name,
        "engine": target.profile.engine,
        "device": server.device,
        **facts,
        **_reported(target, report),
        "draft": _digest(target.draft),
        "source": checkout(Path(target.source)) if target.source else None,
        "host": machine_facts(),
        "load_at_start": load_at_start,
    }
    return identity, process


def missing_fields(identity: Identity, target: Target) -> list[str]:
    """What a lane must know and does not."""
    needed = list(REQUIRED)
    needed += ["draft"] if target.draft else []
    needed += ["source"] if target.source else []
    needed += ["packages"] if target.profile.packages else []
    missing = [name for name in needed if identity.get(name) in (None, "", {}, [])]
    source = identity.get("source")
    unread = target.source and source and source["dirty"] is None
    return [*missing, "source.diff_sha256"] if unread else missing


def code_files(identity: Identity) -> list[Path]:
    """Every file with code that the server runs: its program, its libraries, its packages."""
    binary = identity.get("binary") or {}
    named = [binary.get("path"), (binary.get("program") or {}).get("path"), *(binary.get("libraries") or {})]
    folders = [Path(one["path"]) for one in (identity.get("packages") or {}).values()]
    return [Path(name) for name in named if name] + package_files(folders)


def _process_facts(target: Target, server: ServerProcess, process: ObservedProcess) -> dict[str, Any]:
    binary = process.record()
    interpreter = Path(process.arguments[0]) if process.arguments else process.program
    variables = recorded_variables(process.environment, server.variables)
    folders = package_folders(interpreter, target.profile.packages, process.libraries)
    return {
        "binary": binary,
        "libraries_sha256": binary["libraries_sha256"],
        "packages": package_digests(folders),
        "arguments": [_portless(one, server.port) for one in arguments_shown(process.arguments)],
        "environment": {name: _portless(value, server.port) for name, value in variables.items()},
        "affinity": list(process.affinity),
        "process": {"pid": process.pid, "created": process.created, "listens": process.listens},
    }


def _portless(text: str, port: int) -> str:
    """The port is another one in every lane, and no difference."""
    if text == str(port):
        return "PORT"
    return f"{text.removesuffix(str(port))}PORT" if text.endswith(f":{port}") else text


def _reported(target: Target, report: ServerReport) -> dict[str, Any]:
    profile = target.profile
    return {
        "weights": _value(profile.weights, target, report),
        "template": _value(profile.template, target, report),
        "version": report.value(profile.version),
        "model": report.value(profile.model),
        "options": dict(report.options),
    }


def _value(source: Source | None, target: Target, report: ServerReport) -> Any:
    """A digest or a report; for a file of the target, its SHA-256."""
    if source is None or source.place != "file":
        return report.value(source)
    return _digest(getattr(target, source.path))


def _digest(name: str | None) -> str | None:
    if not name:
        return None
    path = Path(name).expanduser()
    try:
        return path_digest(path.resolve(strict=True))
    except OSError:
        return None
