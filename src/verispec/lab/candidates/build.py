"""Building a clean copy by its recipe, and what came out."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verispec.errors import VerispecError
from verispec.lab.candidates.clean_copy import PatchError, TouchedFile, apply_patch, clean_copy
from verispec.lab.candidates.source_patch import BuildRecipe, SourcePatch
from verispec.lab.identity.digests import file_digest
from verispec.lab.lane.device_claims import claimed
from verispec.lab.launch.server_log import log_end

TAIL = 500
"""Characters of the log's end that a failure quotes."""


class BuildError(VerispecError):
    """Source that could not be made into something that runs; ``log`` holds what was printed until then."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


@dataclass(frozen=True, slots=True)
class Build:
    """``folder`` is the copy; ``products`` are SHA-256 by relative path; ``files`` is what the patch changed."""

    folder: Path
    commit: str
    files: tuple[TouchedFile, ...]
    products: dict[str, str]
    seconds: float
    log: Path = field(repr=False)

    def record(self) -> dict[str, Any]:
        return {
            "commit": self.commit,
            "patched": bool(self.files),
            "products": self.products,
            "seconds": round(self.seconds, 3),
        }


def build(
    source: SourcePatch,
    folder: Path,
    patched: bool,
    waiting: Callable[[str], None] = lambda device: None,
) -> Build:
    """Copies the base into ``folder``, patches it if asked, and runs the recipe while no lane runs on a processor:
    ``waiting`` is told when it must wait for that.

    Raises BuildError for a patch that does not apply, a command that fails or takes too long, a product that is not
    there. OptionError when the repository or the commit does not exist.
    """
    log = folder.with_name(f"{folder.name}.log")
    commit = clean_copy(source.repository, source.base, folder)
    try:
        files = apply_patch(folder, source.patch) if patched else []
    except PatchError as error:
        raise BuildError(str(error)) from error
    with claimed("cpu", waiting=waiting):
        began = time.monotonic()
        _run_all(source.recipe, folder, log)
        seconds = time.monotonic() - began
    products = {}
    for name in source.recipe.products:
        if not (folder / name).is_file():
            raise BuildError(f"build: expected it to make {name}, found no such file", log)
        products[name] = file_digest(folder / name)
    return Build(folder, commit, tuple(files), products, seconds, log)


def _run_all(recipe: BuildRecipe, folder: Path, log: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= recipe.environment
    limit = time.monotonic() + recipe.seconds
    with log.open("wb") as output:
        for command in recipe.commands:
            output.write(f"$ {shlex.join(command)}\n".encode())
            output.flush()
            status = _run(command, folder, environment, output, limit - time.monotonic())
            if status != 0:
                said = f"took longer than {recipe.seconds:g} s" if status is None else f"exit status {status}"
                raise BuildError(f"build: {shlex.join(command)}: {said}: {_tail(log)}", log)


def _run(
    command: Sequence[str], folder: Path, environment: dict[str, str], output: Any, seconds: float
) -> int | None:
    """The exit status; None when it took too long. Nothing that it started is left."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        output.write(f"{command[0]}: {error.strerror}\n".encode())
        output.flush()
        return 127
    try:
        return process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(log: Path) -> str:
    lines = log_end(log).decode(errors="replace").strip().splitlines()
    printed = [line for line in lines if not line.startswith("$ ")]
    return printed[-1][-TAIL:] if printed else "nothing printed"
