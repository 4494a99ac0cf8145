"""What is kept of a log, however much a server prints: its beginning, its end, and a line that says what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verispec.lab.secrets import without

KEPT_BYTES = 8 << 20
"""Of the beginning, and of the end."""
END_BYTES = 4096


def kept_log(path: Path, secrets: Sequence[str] = ()) -> bytes:
    """The log without ``secrets``; empty where there is none. Of a long one the first and last ``KEPT_BYTES``."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        content = file.read(KEPT_BYTES)
        size = file.seek(0, 2)
        cut = max(size - 2 * KEPT_BYTES, 0)
        file.seek(min(KEPT_BYTES, size) + cut)
        end = file.read(KEPT_BYTES)
    if cut:
        content += f"\n[the lab has cut {cut} bytes here]\n".encode()
    return without(content + end, secrets)


def log_end(path: Path, count: int = END_BYTES) -> bytes:
    """The last ``count`` bytes at most; empty where there is no log."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - count, 0))
        return file.read(count)
