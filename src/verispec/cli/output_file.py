"""The file that a command was told to write, checked before anything is paid for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from verispec.errors import OptionError

ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file that is to be written.")]


def check_output(name: str, path: Path) -> None:
    """Raises OptionError, which begins with the option's ``name``, unless a file can be written to ``path``: a new one
    or one to replace. Folders are not made: a misspelt one would be."""
    folder = path.parent
    if path.exists() and not path.is_file():
        raise OptionError(f"{name}: expected a file, found something else at {path}")
    if not folder.is_dir():
        raise OptionError(f"{name}: {path}: expected a folder {folder}, found none")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OptionError(f"{name}: {path}: expected a folder that can be written, found {folder}")


def check_new_output(name: str, path: Path, force: bool, sources: Iterable[Path]) -> None:
    """The same for an artifact, which others may have been made of or measured with: no file is replaced without
    ``force``, and none of ``sources``, which it is made of, at all."""
    check_output(name, path)
    if path.exists() and any(source.exists() and path.samefile(source) for source in sources):
        raise OptionError(f"{name}: expected another file than the input, found {path}")
    if path.exists() and not force:
        raise OptionError(f"{name}: {path}: expected no file there yet, found one; --force replaces it")
