"""The answers a suite is measured on: what ``off`` writes, cut where a loop begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verispec.bench.repetition import loop_start, repeated_share
from verispec.bench.suites import Suite, SuitePrompt
from verispec.engine.model import Model

FEWEST_TOKENS = 32
"""A shorter text before the loop says nothing about a rate."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One prompt with the answer of ``off``: all of it, and how much of it stands before a loop.

    ``measured`` is the number of tokens that rates are taken over; 0 when too little stands before the loop.
    """

    prompt: SuitePrompt
    prompt_tokens: tuple[int, ...]
    tokens: tuple[int, ...]
    finish_reason: str
    loop: int | None

    @property
    def measured(self) -> int:
        length = len(self.tokens) if self.loop is None else self.loop
        return length if length >= FEWEST_TOKENS else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.prompt.id,
            "class": self.prompt.category,
            "prompt_sha256": self.prompt.digest,
            "prompt_tokens": len(self.prompt_tokens),
            "tokens": len(self.tokens),
            "finish_reason": self.finish_reason,
            "loop_starts_at": self.loop,
            "measured_tokens": self.measured,
            "repeated_8grams": round(repeated_share(self.tokens), 4),
            "repeated_8grams_measured": round(repeated_share(self.tokens[: self.measured]), 4),
        }


def write_answers(model: Model, suite: Suite, **sampling: Any) -> list[Answer]:
    """Answers every prompt with ``off``; a model without a chat template completes the prompt's text."""
    answers = []
    for prompt in suite.prompts:
        asked = model.encode([{"role": "user", "content": prompt.text}] if model.template else prompt.text)
        written = model.generate(asked, max_tokens=suite.max_tokens, spec_mode="off", **sampling)
        answers.append(
            Answer(prompt, tuple(asked), written.tokens, written.finish_reason, loop_start(written.tokens))
        )
    return answers


def summarise(answers: Sequence[Answer]) -> dict[str, Any]:
    """How much of a suite was measured, and how much of it repeats itself."""
    return {
        "prompts": len(answers),
        "prompts_measured": sum(answer.measured > 0 for answer in answers),
        "tokens": sum(len(answer.tokens) for answer in answers),
        "tokens_measured": sum(answer.measured for answer in answers),
        "with_loop": sum(answer.loop is not None for answer in answers),
    }
