"""The commit that an engine was built from, and what its working tree adds."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from verispec.lab.identity.digests import file_digest

SECONDS = 60.0


def checkout(folder: Path) -> dict[str, Any] | None:
    """Commit, and a digest of the uncommitted changes ("" for a clean tree); None where it is no git checkout."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(folder, "diff", "HEAD", "--binary") or b""
    added = (_git(folder, "ls-files", "--others", "--exclude-standard", "-z") or b"").split(b"\0")
    digest = hashlib.sha256(changed)
    for name in sorted(name for name in added if name):
        path = folder / name.decode(errors="surrogateescape")
        digest.update(name + b"\0" + (file_digest(path) if path.is_file() else "").encode() + b"\n")
    dirty = bool(changed) or any(added)
    return {
        "commit": commit.decode().strip(),
        "dirty": dirty,
        "diff_sha256": digest.hexdigest() if dirty else "",
    }


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
