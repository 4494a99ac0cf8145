"""A running process as the kernel sees it: its program, the libraries it maps, arguments, environment, processors."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from verispec.lab.identity.digests import file_digest


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """``listens``: it has the lane's port. ``program`` is what runs; ``script`` what it interprets, when it is an
    interpreter. ``libraries`` are all files mapped as code, of the process and its descendants, by path."""

    pid: int
    created: float
    listens: bool
    program: Path
    script: Path | None
    arguments: tuple[str, ...]
    environment: dict[str, str]
    affinity: tuple[int, ...]
    libraries: dict[str, str]

    @property
    def binary(self) -> Path:
        """What a person calls the program: the script where there is one."""
        return self.script or self.program

    def record(self) -> dict[str, Any]:
        """Hashes and facts as JSON; the environment is recorded elsewhere, without secrets."""
        libraries = json.dumps(self.libraries, sort_keys=True)
        return {
            "path": str(self.binary),
            "sha256": file_digest(self.binary),
            "program": {"path": str(self.program), "sha256": file_digest(self.program)},
            "libraries": self.libraries,
            "libraries_sha256": hashlib.sha256(libraries.encode()).hexdigest(),
        }


def observe(processes: Sequence[psutil.Process], port: int) -> ObservedProcess:
    """The process among ``processes`` that listens on ``port``, or the first when none can be told.

    Raises psutil.Error or OSError when the kernel does not show it, as for other users' processes.
    """
    process = next((one for one in processes if _listens(one, port)), processes[0])
    arguments = tuple(process.cmdline())
    program = Path(process.exe())
    libraries: dict[str, str] = {}
    for one in processes:
        try:
            libraries |= mapped_code(one.pid)
        except (OSError, psutil.Error):  # a descendant that has ended meanwhile
            continue
    return ObservedProcess(
        process.pid,
        process.create_time(),
        _listens(process, port),
        program,
        _script(program, arguments),
        arguments,
        process.environ(),
        tuple(process.cpu_affinity() or ()),
        libraries,
    )


def mapped_code(pid: int) -> dict[str, str]:
    """Path and digest of every file that a process maps as code."""
    found = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
            path = Path(fields[5])
            if path.is_file():
                found[str(path)] = file_digest(path)
    return dict(sorted(found.items()))


def resolve_program(name: str) -> Path | None:
    """The file that a command name means; None when there is none."""
    found = shutil.which(name)
    return None if found is None else Path(found).resolve()


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        connections = process.net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)


def _script(program: Path, arguments: Sequence[str]) -> Path | None:
    """The script that an interpreter runs: its first argument that is a file and not an option."""
    if not any(name in program.name for name in ("python", "sh", "perl", "ruby", "node")):
        return None
    for argument in arguments[1:]:
        if not argument.startswith("-"):
            path = Path(argument)
            return path.resolve() if path.is_file() else None
    return None
