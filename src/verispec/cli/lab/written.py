"""A command's result as a file: its folder is made where it is missing, and what cannot be written is said."""

from __future__ import annotations

from pathlib import Path

from verispec.errors import OptionError


def write_file(text: str, path: Path, option: str) -> None:
    """Writes ``text`` to ``path``, which the user gave as ``option``. OptionError when that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(
            f"{option}: expected a file that can be written, found {path}: {error.strerror}"
        ) from error
