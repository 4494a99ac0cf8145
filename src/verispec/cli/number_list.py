"""A flag that takes several numbers, separated by commas."""

from __future__ import annotations

from typing import TypeVar

from verispec.errors import OptionError

Number = TypeVar("Number", int, float)


def parse_numbers(name: str, text: str, kind: type[Number]) -> list[Number]:
    """The numbers of ``text``. Raises OptionError, naming the flag, for anything else and for none."""
    try:
        numbers = [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        wanted = "integers" if kind is int else "numbers"
        raise OptionError(f"{name}: expected {wanted} separated by commas, found {text!r}")
    return numbers
