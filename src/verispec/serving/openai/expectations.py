"""What a wrong value should have been, in words, from what pydantic says about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

_BY_KIND: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "string_type": lambda _: "a string",
    "int_type": lambda _: "an integer",
    "float_type": lambda _: "a number",
    "bool_type": lambda _: "true or false",
    "list_type": lambda _: "a list",
    "dict_type": lambda _: "an object",
    "model_type": lambda _: "an object",
    "model_attributes_type": lambda _: "an object",
    "none_required": lambda _: "null",
    "literal_error": lambda facts: str(facts["expected"]).replace("False", "false"),
    "greater_than": lambda facts: f"more than {facts['gt']:g}",
    "greater_than_equal": lambda facts: f"at least {facts['ge']:g}",
    "less_than": lambda facts: f"less than {facts['lt']:g}",
    "less_than_equal": lambda facts: f"at most {facts['le']:g}",
    "string_too_short": lambda facts: _amount("at least", facts["min_length"], "character", "characters"),
    "string_too_long": lambda facts: _amount("at most", facts["max_length"], "character", "characters"),
    "too_short": lambda facts: _amount("at least", facts["min_length"], "entry", "entries"),
    "too_long": lambda facts: _amount("at most", facts["max_length"], "entry", "entries"),
    "string_pattern_mismatch": lambda facts: f"text that matches {facts['pattern']}",
    "union_tag_invalid": lambda facts: f"one of {facts['expected_tags']}",
    "union_tag_not_found": lambda facts: f"an object with {facts['discriminator']}",
}


def expectation(detail: ErrorDetails) -> str:
    """What ``detail`` says the value should have been, to stand behind "expected"."""
    words = _BY_KIND.get(detail["type"])
    return detail["msg"] if words is None else words(detail.get("ctx", {}))


def _amount(bound: str, count: int, one: str, many: str) -> str:
    return f"{bound} {count} {one if count == 1 else many}"
