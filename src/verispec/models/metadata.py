"""Reads model parameters from GGUF metadata. Every refusal names the file, the key, what was expected and
found."""

from __future__ import annotations

import math
from collections.abc import Mapping

from verispec.errors import ArtifactError

MISSING = object()

LONGEST_SHOWN = 80
LARGEST_WIDTH = 1 << 18
WEIGHT_BLOCK = 32
"""Widths are whole blocks of activations."""


def shorten(text: str) -> str:
    """``text`` as an error shows it: a hostile value may be megabytes long."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


class MetadataReader:
    """The keys of one architecture (``<architecture>.<name>``) in the metadata of one file."""

    def __init__(self, file: object, metadata: Mapping[str, object], architecture: str) -> None:
        self.file = file
        self.architecture = architecture
        self._metadata = metadata

    def refuse(self, name: str, expected: str, found: object) -> ArtifactError:
        """The error for the value of ``<architecture>.<name>``; the caller raises it."""
        shown = "nothing" if found is MISSING else shorten(repr(found))
        return ArtifactError(self.file, f"metadata key {self.architecture}.{name}", expected, shown)

    def has(self, name: str) -> bool:
        return f"{self.architecture}.{name}" in self._metadata

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An integer in ``low .. high``; a list of equal ones, as some files hold per layer, counts as
        one."""
        value = self._value(name, default)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.refuse(name, f"an integer in {low} .. {high}", value)
        return value

    def width(self, name: str, default: int | None = None) -> int:
        """A width in elements, whole blocks of activations."""
        width = self.integer(name, 1, LARGEST_WIDTH, default)
        if width % WEIGHT_BLOCK:
            raise self.refuse(name, f"a multiple of {WEIGHT_BLOCK}", width)
        return width

    def flag(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false", value)
        return value

    def flags(self, name: str, count: int) -> tuple[bool, ...]:
        """A list of ``count`` flags, one a layer."""
        value = self.value(name)
        if not isinstance(value, list) or len(value) != count or not all(flag in (0, 1) for flag in value):
            raise self.refuse(name, f"{count} flags, one a layer", value)
        return tuple(bool(flag) for flag in value)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number in ``low .. high``."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.refuse(name, f"a finite number in {low:g} .. {high:g}", value)
        if not low <= value <= high:
            raise self.refuse(name, f"a number in {low:g} .. {high:g}", value)
        return float(value)

    def text(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """One of ``choices``."""
        value = self._value(name, default)
        if not isinstance(value, str) or value not in choices:
            raise self.refuse(name, f"one of {', '.join(choices)}", value)
        return value

    def value(self, name: str) -> object:
        """The value as it is, or ``MISSING``."""
        return self._metadata.get(f"{self.architecture}.{name}", MISSING)

    def token_count(self) -> int | None:
        """How many tokens the file's tokeniser has; None when the file holds no tokeniser."""
        tokens = self._metadata.get("tokenizer.ggml.tokens")
        return len(tokens) if isinstance(tokens, list) else None

    def _value(self, name: str, default: object) -> object:
        found = self.value(name)
        return default if found is MISSING and default is not None else found
