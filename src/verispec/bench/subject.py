"""What is measured, ours or another engine: passes over rows, a prompt, and decoding token by token."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_FILLER, LAST_FILLER = 100, 20_000
"""Ordinary words of a usual vocabulary; which ones a pass holds does not change what it costs."""


@dataclass(frozen=True, slots=True)
class DecodeRun:
    """One greedy answer, timed from its first token on.

    ``counted`` tokens took ``seconds``: the first round, which also waits for the prompt, is in neither.
    ``passes``, ``drafted`` and ``accepted`` are None where an engine does not say.
    """

    tokens: tuple[int, ...]
    counted: int
    seconds: float
    prompt_seconds: float
    passes: int | None = None
    drafted: int | None = None
    accepted: int | None = None

    @property
    def seconds_per_token(self) -> float:
        """Behind the first round; of the whole answer when it was one round."""
        if self.counted:
            return self.seconds / self.counted
        return (self.prompt_seconds + self.seconds) / max(len(self.tokens), 1)


class Writer(ABC):
    """One engine with one model, threads and configuration that writes greedy answers. One call at a time."""

    name: str
    """Engine and configuration, as a table shows it."""
    engine: str
    """The engine alone: ``verispec``, or a peer of the catalogue."""
    speculates: bool

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Versions and settings."""

    @abstractmethod
    def decode(self, prompt: Sequence[int], max_tokens: int, end_tokens: Sequence[int]) -> DecodeRun:
        """A greedy answer to ``prompt``."""

    @abstractmethod
    def close(self) -> None:
        """Frees the engine. Safe to call twice."""


class Subject(Writer):
    """A writer whose single passes can be timed too."""

    @abstractmethod
    def passes(self, context: Sequence[int], rows: Sequence[int], repeats: int) -> list[float]:
        """Seconds of each pass over ``rows`` behind ``context``, with the outcome of every row computed."""

    @abstractmethod
    def prompt(self, tokens: Sequence[int], repeats: int) -> list[float]:
        """Seconds of evaluating ``tokens`` from an empty context, with the logits of the last."""


def filler_tokens(count: int, vocabulary: int) -> list[int]:
    """``count`` token ids below ``vocabulary``, the same ones each time."""
    last = min(vocabulary, LAST_FILLER)
    return random.Random(count).choices(range(min(FIRST_FILLER, last - 1), last), k=count)
