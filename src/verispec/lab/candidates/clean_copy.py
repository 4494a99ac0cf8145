"""A copy of a repository at one commit, in a folder of its own: the user's tree is read and never touched."""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verispec.errors import OptionError, VerispecError

SECONDS = 600.0


class PatchError(VerispecError):
    """A patch that does not apply to its base."""


@dataclass(frozen=True, slots=True)
class TouchedFile:
    """A file that a patch changes; ``added`` and ``removed`` count lines, None for a binary file."""

    path: str
    added: int | None
    removed: int | None

    def record(self) -> dict[str, Any]:
        return asdict(self)


def clean_copy(repository: Path, base: str, folder: Path) -> str:
    """Checks ``base`` out into ``folder``, which must not exist, and gives its full hash.

    The copy borrows the repository's objects, so it is quick, and knows no way back to it: it has no remote and runs no
    hooks. What is not committed is not in it. OptionError where there is no such repository or commit.
    """
    if not repository.is_dir():
        raise OptionError(f"repository: expected a folder, found none at {repository}")
    commit = _try(repository, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    if commit is None:
        raise OptionError(f"base: expected a commit of {repository}, found {base!r}")
    _git(None, "clone", "--quiet", "--shared", "--no-checkout", str(repository), str(folder))
    _git(folder, "remote", "remove", "origin")
    _git(folder, "checkout", "--quiet", "--detach", commit.strip())
    return commit.strip()


def apply_patch(folder: Path, patch: str) -> list[TouchedFile]:
    """Applies a patch to a clean copy, all of it or nothing, and says which files it changes. PatchError."""
    content = patch.encode(errors="surrogateescape")
    done = _run(folder, ("apply", "--index", "--whitespace=nowarn", "-"), content)
    if done.returncode != 0:
        raise PatchError(f"patch: it does not apply: {done.stderr.decode(errors='replace').strip()}")
    listed = _git(folder, "diff", "--cached", "--numstat", "--no-renames", "-z", "HEAD")
    files = []
    for entry in listed.split("\0"):
        if entry:
            added, removed, path = entry.split("\t", 2)
            files.append(TouchedFile(path, _count(added), _count(removed)))
    if not files:
        raise PatchError("patch: it changes nothing")
    return files


def _count(text: str) -> int | None:
    return None if text == "-" else int(text)


def _git(folder: Path | None, *arguments: str) -> str:
    done = _run(folder, arguments)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise OptionError(f"git {arguments[0]}: {said}")
    return done.stdout.decode(errors="surrogateescape")


def _try(folder: Path, *arguments: str) -> str | None:
    done = _run(folder, arguments)
    return done.stdout.decode() if done.returncode == 0 else None


def _run(
    folder: Path | None, arguments: tuple[str, ...], given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Git with nothing of the caller's: variables such as GIT_DIR, set in hooks, would name the user's tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_TERMINAL_PROMPT"] = "0"
    command = ["git", "-c", "core.hooksPath=/dev/null", *(["-C", str(folder)] if folder else []), *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, env=environment, timeout=SECONDS, check=False
    )
