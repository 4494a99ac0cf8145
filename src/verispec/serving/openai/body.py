"""Request bodies: JSON read strictly, so that what is malformed is refused before anything looks at it."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from verispec.serving.openai.errors import RequestError

MAX_DEPTH = 64
"""Objects and lists inside one another; a JSON schema of a tool rarely has 20."""

_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def read_object(content_type: str | None, raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``.

    Raises RequestError: 415 for another content type (a web page cannot send this one to a server on its visitor's
    machine unasked), 400 for what is not UTF-8, not JSON (NaN and Infinity are not), no object, nested more than
    MAX_DEPTH deep, or has a name twice or half a surrogate pair.
    """
    kind = (content_type or "").split(";")[0].strip().lower()
    if kind != "application/json":
        found = repr(kind) if kind else "none"
        message = f"Content-Type: expected application/json, found {found}"
        raise RequestError(message, "unsupported_media_type", status=415)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(f"expected UTF-8, found an invalid byte at offset {error.start}")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        _refuse(f"expected JSON, found {error.msg!r} at line {error.lineno} column {error.colno}")
    except RecursionError:
        _refuse(f"expected at most {MAX_DEPTH} levels of nesting, found more")
    except ValueError as error:  # our own hooks, and integers of thousands of digits
        _refuse(str(error))
    if not isinstance(value, dict):
        _refuse(f"expected a JSON object, found {_kind(value)}")
    _check_depth(value)
    if _HALF_PAIR.search(text):
        _check_pairs(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _members(outer) if isinstance(inner, (dict, list))]
        if not level:
            return
    _refuse(f"expected at most {MAX_DEPTH} levels of nesting, found more")


def _members(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _check_pairs(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        _refuse("expected Unicode, found half a surrogate pair in a string")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"expected every name once, found {twice[:80]!r} again")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"expected JSON, found {name}, which JSON does not have")


def _number(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("expected numbers that a double can hold, found a greater one")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 40:
        raise ValueError("expected numbers of at most 40 digits, found a longer one")
    return int(digits)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_number, parse_int=_integer
)


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list")


def _refuse(what: str) -> NoReturn:
    raise RequestError(f"body: {what}", "invalid_json")
