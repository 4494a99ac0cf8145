"""A suite's TOML file, checked key by key: what is wrong is named by file, line, entry and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from verispec.errors import OptionError
from verispec.lab.settings import check_fields, tables

Hints = Mapping[str, Any]


class Entries:
    """The content of a file of ``where``: keys of its own (``own``) and a list of tables (``[[entry]]``).

    Raises OptionError for text that is no TOML, another key, a key that is missing, a value of another type, no entry,
    and an ``id`` or ``text`` that stands there twice. Every key is needed.
    """

    def __init__(self, text: str, where: str, own: Hints, entry: str, keys: Hints) -> None:
        try:
            self.content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise OptionError(f"{where}: expected TOML, found {error}") from error
        self._where, self._entry = where, entry
        headings = re.finditer(rf"^[ \t]*\[\[[ \t]*{entry}[ \t]*\]\]", text, re.MULTILINE)
        self._lines = [text.count("\n", 0, found.start()) + 1 for found in headings]
        check_fields(self.content, {**own, entry: Any}, where, list(own))
        self.tables = tables(self.content, entry, where)
        if not self.tables:
            raise OptionError(f"{where}: {entry}: expected one or more [[{entry}]], found none")
        for place, values in enumerate(self.tables):
            check_fields(values, keys, self.place(place), list(keys))
        for name in ("id", "text"):
            self._once(name)

    def place(self, number: int) -> str:
        """What errors call an entry, counted from 0; its line is known where it has a heading of its own."""
        line = f", line {self._lines[number]}" if len(self._lines) == len(self.tables) else ""
        return f"{self._where}{line}: {self._entry} {number + 1}"

    def _once(self, name: str) -> None:
        first: dict[str, int] = {}
        for place, values in enumerate(self.tables):
            value = str(values[name]).strip()
            if value in first:
                other = f"{self._entry} {first[value] + 1}"
                raise OptionError(f"{self.place(place)}: {name}: expected each once, found that of {other}")
            first[value] = place
