"""Tables of a TOML file as what they are read into: every name is one that is read, every value of its field's type."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING
from typing import Any, Union, get_args, get_origin, get_type_hints

from verispec.errors import OptionError

Table = Mapping[str, Any]
WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "nothing",
}
MANY = {str: "texts", int: "whole numbers", float: "numbers", bool: "values true or false"}


def build(kind: Any, values: Table, where: str, only: Collection[str] = ()) -> Any:
    """The dataclass ``kind`` from a table; ``only`` are the fields that a file may set (all without it).

    OptionError for another name, a value of another type, and a field that is needed and not there.
    """
    fields = dataclasses.fields(kind)
    hints = get_type_hints(kind)
    known = {one.name: hints[one.name] for one in fields if not only or one.name in only}
    needed = [one.name for one in fields if one.default is MISSING and one.default_factory is MISSING]
    check_fields(values, known, where, [name for name in needed if name in known])
    return kind(**values)


def check_fields(values: Any, hints: Mapping[str, Any], where: str, needed: Collection[str]) -> None:
    """That ``values`` is a table with no names but those of ``hints``, all that are ``needed``, each of its type.

    OptionError that names the key, what was expected of it, and what was found.
    """
    if not isinstance(values, Mapping):
        raise OptionError(f"{where}: expected a table, found {values!r}")
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise OptionError(f"{where}: expected only {', '.join(sorted(hints))}, found {unknown[0]!r}")
    for name in needed:
        if name not in values:
            raise OptionError(f"{where}: {name}: expected {_word(hints[name])}, found none")
    for name, value in values.items():
        checked(value, hints[name], f"{where}: {name}")


def checked(value: Any, hint: Any, where: str) -> Any:
    """``value``, which must be of the type ``hint``: OptionError otherwise. A whole number is a number, a truth value
    is none; lists stand for tuples."""
    if not _fits(value, hint):
        raise OptionError(f"{where}: expected {_word(hint)}, found {value!r}")
    return value


def table(content: Table, name: str, where: str) -> Table:
    """The table ``name``; an empty one where there is none."""
    found: Table = checked(content.get(name, {}), Mapping[str, Any], f"{where}: {name}")
    return found


def tables(content: Table, name: str, where: str) -> Sequence[Table]:
    """The tables of the list ``name`` (``[[name]]``)."""
    found = content.get(name, [])
    if not isinstance(found, list | tuple) or not all(isinstance(one, Mapping) for one in found):
        raise OptionError(f"{where}: {name}: expected tables, [[{name}]], found {found!r}")
    return found


def as_texts(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts and numbers, as texts."""
    found: Sequence[Any] = checked(value, tuple[str | int | float, ...], where)
    return tuple(str(one) for one in found)


def as_text_table(value: Any, where: str) -> dict[str, str]:
    """A table of texts and numbers, as texts."""
    found: Table = checked(value, Mapping[str, str | int | float], where)
    return {name: str(one) for name, one in found.items()}


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(one, arguments[0]) for one in value)
    if origin is not None:
        return isinstance(value, Mapping) and all(_fits(one, arguments[1]) for one in value.values())
    if hint in (int, float):
        kinds = (int,) if hint is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, hint)


def _word(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_word(one) for one in arguments if one is not type(None))
    if origin is tuple:
        inner = get_args(arguments[0]) or (arguments[0],)
        return "a list of " + " or ".join(MANY.get(one, "lists of texts") for one in inner)
    return WORDS.get(hint, "a table")
