"""The commit that an engine was built from, and what its working tree adds."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from verispec.lab.identity.digests import file_digest

SECONDS = 60.0


def checkout(folder: Path) -> dict[str, Any] | None:
    """Commit, and a digest of the uncommitted changes ("" for a clean tree); None where it is no git checkout.

    ``dirty`` and the digest are None when the changes could not be read: what is not known is not clean.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    digest = _changes(folder)
    return {
        "commit": commit.decode().strip(),
        "dirty": None if digest is None else digest != "",
        "diff_sha256": digest,
    }


def _changes(folder: Path) -> str | None:
    changed = _git(folder, "diff", "HEAD", "--binary", "--no-ext-diff")
    listed = _git(folder, "ls-files", "--others", "--exclude-standard", "-z")
    if changed is None or listed is None:
        return None
    added = sorted(name for name in listed.split(b"\0") if name)
    if not changed and not added:
        return ""
    digest = hashlib.sha256(changed)
    try:
        for name in added:
            path = folder / name.decode(errors="surrogateescape")
            digest.update(name + b"\0" + (file_digest(path) if path.is_file() else "").encode() + b"\n")
    except OSError:  # a file that this user may not read, or that went meanwhile
        return None
    return digest.hexdigest()


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
