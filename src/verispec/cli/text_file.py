"""Text files that the user names: UTF-8, or an error that says which file is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from verispec.errors import OptionError


def read_text(path: Path) -> str:
    """The text of ``path``. Raises OptionError when it is not UTF-8, OSError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: expected UTF-8 text, found {error}") from error


def read_json(path: Path) -> Any:
    """The JSON value in ``path``. Raises OptionError where there is none, and as ``read_text`` does."""
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise OptionError(f"{path}: expected JSON, found at {where}: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # an endless number, endless nesting
        raise OptionError(f"{path}: expected JSON of a reasonable size, found {error}") from error
