"""Numbers and foreign text for pages, the same on every one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "–"


class Verbatim(str):
    """A text that has a digest, such as a patch: it is shown as it is."""


def shown(text: str) -> str:
    """Text from a log or a server with characters that do not show made visible, such as those that turn it around."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def signed(percent: float | None) -> str:
    """A change in percent."""
    return UNKNOWN if percent is None else f"{percent:+.2f}%"


def interval(ends: list[float | None] | None) -> str:
    """Two changes in percent; an end that is not known rules nothing out on its side."""
    if ends is None or ends == [None, None]:
        return "nothing ruled out"
    return f"{signed(ends[0])} to {signed(ends[1])}"


def number(value: float | None, digits: int = 2) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def figures(value: float | None) -> str:
    """Four figures, however large or small the number is."""
    return UNKNOWN if value is None else f"{value:.4g}"


def milliseconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{1000 * seconds:.2f}"


def moment(seconds: float | None) -> str:
    """Seconds since the epoch as a day and a time, UTC."""
    return UNKNOWN if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def value_text(value: Any) -> str:
    """Any JSON value on one line."""
    if value is None:
        return UNKNOWN
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def verbatim(value: str) -> Verbatim:
    return Verbatim(value)


def told_apart(pair: Sequence[Any], shown: Callable[[str], str]) -> list[str]:
    """Two values that differ, as they are ``shown``: where only what is not shown of them differs, that is said."""
    first, second = (shown(value_text(value)) for value in pair)
    return [first, f"{second} (in another folder)" if first == second else second]
