"""What the two endpoints' answers have in common: each knows how to write a whole one, and one in pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from verispec.engine.completion import Chunk, Completion
from verispec.serving.openai.events import write_json

ReceiptFields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finished:
    """One choice at its end, and where its receipt is if one was asked for."""

    completion: Completion
    receipt: ReceiptFields | None = None


class Shape(Protocol):
    """How one request's answer is written down. Choices are numbered over all prompts, in order."""

    def whole(self, finished: Sequence[Finished]) -> str:
        """The answer as one JSON object. Called once, maybe in another thread."""

    def opening(self, index: int) -> bytes:
        """The event that a choice begins with."""

    def chunk(self, index: int, chunk: Chunk) -> bytes:
        """The event for one round of a choice; nothing when there is nothing to say yet."""

    def ending(self, index: int, finished: Finished) -> bytes:
        """The event that a choice ends with."""

    def last(self, finished: Sequence[Finished]) -> bytes:
        """The event behind all choices; nothing when none was asked for."""


def write_whole(head: Mapping[str, Any], choices: Sequence[str], fields: Mapping[str, Any]) -> str:
    """JSON of an answer, its ``choices`` written already."""
    return f'{write_json(head)[:-1]},"choices":[{",".join(choices)}],{write_json(fields)[1:]}'
