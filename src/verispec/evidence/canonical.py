"""One way to write a value as JSON, so that equal values are equal bytes and any changed byte shows.

Keys are sorted, text is UTF-8, numbers are integers. A float is written as text, in the shortest decimal form
that reads back to the same bits (``exact_decimal``): JSON numbers survive few programs unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from verispec.errors import ReceiptError

MAX_BYTES = 64 << 20
MAX_DEPTH = 32


def exact_decimal(value: float) -> str:
    """``value`` as text that ``float`` reads back exactly. Raises ReceiptError for NaN and infinities."""
    if not math.isfinite(value):
        raise ReceiptError(f"receipt: expected a finite number, found {value}")
    return repr(float(value))


def plain(value: Any, where: str = "receipt", depth: int = 0) -> Any:
    """A copy of ``value`` in receipt types: dict with text keys, list, str, int, bool, None; floats as exact
    decimals.

    Raises ReceiptError naming the place of anything else.
    """
    if depth > MAX_DEPTH:
        raise ReceiptError(f"{where}: expected at most {MAX_DEPTH} levels")
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return exact_decimal(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ReceiptError(f"{where}: expected text as keys, found {type(key).__name__}")
        return {key: plain(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise ReceiptError(f"{where}: expected text, numbers, lists or mappings, found {type(value).__name__}")


def canonical_bytes(value: Any) -> bytes:
    """What is hashed and signed: ``value`` (of receipt types) without spaces."""
    return _encode(value, None, (",", ":"))


def readable_bytes(value: Any) -> bytes:
    """What is written to files: the same with one fixed layout for people, and a newline at the end."""
    return _encode(value, 1, (",", ": ")) + b"\n"


def parse_readable(data: bytes) -> Any:
    """The value whose ``readable_bytes`` are ``data``. Raises ReceiptError for any other bytes."""
    if len(data) > MAX_BYTES:
        raise ReceiptError(f"receipt: expected at most {MAX_BYTES} bytes, found {len(data)}")
    try:
        value = json.loads(data.decode("utf-8"), parse_float=_no_float, parse_constant=_no_float)
        same = readable_bytes(value) == data
    except (ValueError, RecursionError) as error:
        raise ReceiptError(f"receipt: expected canonical JSON, found {error}") from error
    if not same:
        raise ReceiptError("receipt: expected canonical JSON, found another layout, order or spelling")
    return value


def _encode(value: Any, indent: int | None, separators: tuple[str, str]) -> bytes:
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
    )
    return text.encode("utf-8")


def _no_float(text: str) -> None:
    raise ValueError(f"the number {text}")
