"""A strategy with options, written in one word: ``suffix`` or ``suffix:spec_draft_max=7:spec_draft_policy=fixed``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from verispec.errors import OptionError


@dataclass(frozen=True, slots=True)
class StrategySetting:
    """What to pass to ``generate``; ``name`` is the word it was written as."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


def parse_setting(word: str) -> StrategySetting:
    """Raises OptionError when the word is malformed; whether the strategy exists is for the engine to say."""
    mode, *rest = word.split(":")
    options: dict[str, Any] = {"spec_mode": mode}
    for part in rest:
        name, equals, value = part.partition("=")
        if not name or not equals or not value:
            raise OptionError(f"strategy {word!r}: expected STRATEGY[:OPTION=VALUE...], found {part!r}")
        options[name] = _value(value)
    return StrategySetting(word, options)


def parse_settings(words: str) -> list[StrategySetting]:
    """Several, separated by commas, each once."""
    settings = [parse_setting(word) for part in words.split(",") if (word := part.strip())]
    if len({setting.name for setting in settings}) < len(settings) or not settings:
        raise OptionError(f"strategies: expected different ones separated by commas, found {words!r}")
    return settings


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
