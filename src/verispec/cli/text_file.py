"""Text files that the user names: UTF-8, or an error that says which file is not."""

from __future__ import annotations

from pathlib import Path

from verispec.errors import OptionError


def read_text(path: Path) -> str:
    """The text of ``path``. Raises OptionError when it is not UTF-8, OSError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: expected UTF-8 text, found {error}") from error
