"""The file that a command will write a receipt to, checked before the answer is paid for."""

from __future__ import annotations

import os
from pathlib import Path

from verispec.errors import OptionError


def check_receipt_path(path: Path) -> None:
    """Raises OptionError unless a receipt can be written to ``path``: a new file or one to replace."""
    folder = path.parent
    if path.exists() and not path.is_file():
        raise OptionError(f"receipt: expected a file, found something else at {path}")
    if not folder.is_dir():
        raise OptionError(f"receipt: {path}: expected a folder {folder}, found none")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OptionError(f"receipt: {path}: expected a folder that can be written, found {folder}")
