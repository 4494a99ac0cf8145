"""Where the Python packages of an engine are that runs in its own interpreter."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from verispec.lab.identity.digests import tree_digest
from verispec.lab.identity.environment import CODE_ENDINGS

SECONDS = 60.0
FIND = """
import importlib.util, json, sys
found = {}
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    if spec is not None:
        found[name] = (list(spec.submodule_search_locations or ()) or [spec.origin])[0]
print(json.dumps(found))
"""


def package_folders(interpreter: Path, names: Sequence[str], mapped: Iterable[str]) -> dict[str, Path]:
    """The folder of each package: that of code of it which the process has ``mapped``, or else where ``interpreter``
    would import it from. Packages that neither finds are left out."""
    found = {name: folder for name in names if (folder := _among(name, mapped)) is not None}
    missing = [name for name in names if name not in found]
    return found | (_importable(interpreter, missing) if missing else {})


def _among(name: str, mapped: Iterable[str]) -> Path | None:
    for path in map(Path, mapped):
        if name in path.parts[:-1]:
            return Path(*path.parts[: len(path.parts) - path.parts[::-1].index(name)])
    return None


def _importable(interpreter: Path, names: Sequence[str]) -> dict[str, Path]:
    try:
        done = subprocess.run(
            [str(interpreter), "-c", FIND, *names],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return {}
    return {name: Path(folder) for name, folder in found.items()}


def package_digests(folders: dict[str, Path]) -> dict[str, dict[str, str]]:
    """Path and digest of each package's code."""
    return {
        name: {"path": str(folder), "sha256": tree_digest(folder, CODE_ENDINGS)}
        for name, folder in folders.items()
    }
