"""Where a fact about a server is read: ``PLACE:PATH``, such as ``options:health.build.isa``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verispec.errors import OptionError

PLACES = {
    "options": "a path into what the server says about itself, by the names of the profile's [options]",
    "timings": "a path into the timings that end an answer",
    "usage": "a path into the usage that ends an answer",
    "metrics": "the name of a sample of the server's metrics",
    "log": "a regular expression over the server's log, whose first group is the value",
    "command": "arguments with which the binary prints it",
    "file": "the file or folder that the target names under this key",
}


@dataclass(frozen=True, slots=True)
class Source:
    place: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Source:
        """OptionError when the place is none of ``PLACES``."""
        place, _, path = text.partition(":")
        if place not in PLACES:
            raise OptionError(f"source: expected one of {', '.join(PLACES)} before a colon, found {text!r}")
        return cls(place, path)

    def filled(self, name: str, value: str) -> Source:
        """With ``{name}`` and ``{value}`` in its path replaced."""
        return Source(self.place, self.path.replace("{name}", name).replace("{value}", value))

    def __str__(self) -> str:
        return f"{self.place}:{self.path}"


def look_up(content: Any, path: str) -> Any:
    """The value at a path of names and indices with dots between them; None when there is none.

    A name that holds dots itself (``params.speculative.types``) is found too: at each step the longest name wins.
    """
    if not path:
        return content
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        name, rest = ".".join(parts[:count]), ".".join(parts[count:])
        if isinstance(content, Mapping) and name in content:
            return look_up(content[name], rest)
        if isinstance(content, list) and count == 1 and name.isdigit() and int(name) < len(content):
            return look_up(content[int(name)], rest)
    return None
