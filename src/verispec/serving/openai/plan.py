"""What a request comes to: answers to ask of the engine, and the shape to write them down in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verispec.serving.openai.shape import Shape
from verispec.serving.openai.submission import Submission


@dataclass(frozen=True, slots=True)
class Plan:
    submissions: Sequence[Submission]
    shape: Shape


def choices(prompt: Sequence[int], options: Mapping[str, Any], count: int) -> list[Submission]:
    """``count`` answers to one prompt, each with noise of its own."""
    return [Submission(prompt, {**options, "choice": choice}) for choice in range(count)]
