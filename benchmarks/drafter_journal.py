"""What a long run has done so far: a file of JSON lines that is only ever added to, so that it can be killed."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from verispec.errors import OptionError


class Journal:
    """The entries of ``path``, and a place for more. A context manager.

    Its first line says what run it is of. A line that a kill cut short is dropped.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        """Begins the file, or goes on with one of the same ``identity``. OptionError for one of another run."""
        self.entries: list[dict[str, Any]] = []
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if lines:
            found, *self.entries = _parsed(path, lines)
            self._check(path, found, identity)
        self._file = path.open("ab")
        self._file.truncate(len(whole))
        if not lines:
            self._write(identity)

    @staticmethod
    def _check(path: Path, found: dict[str, Any], identity: dict[str, Any]) -> None:
        other = [name for name in identity if found.get(name) != identity[name]]
        if other:
            raise OptionError(
                f"{path}: expected a run of the same {', '.join(other)} to go on with, found another; "
                "name another output or remove it"
            )

    def add(self, entry: dict[str, Any]) -> None:
        """Adds a line, and it is on its way to the disk when this returns."""
        self._write(entry)
        self.entries.append(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _parsed(path: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise OptionError(f"{path}: line {number}: expected JSON, found {line[:40]!r}") from error
        if not isinstance(entry, dict):
            raise OptionError(f"{path}: line {number}: expected a JSON object, found {line[:40]!r}")
        entries.append(entry)
    return entries
