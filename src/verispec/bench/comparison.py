"""``bench peers``: ours and other engines on the same file, in turns, and the ratios between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from verispec.bench.answers import Answer
from verispec.bench.peers.location import NotMeasured
from verispec.bench.repetition import loop_start
from verispec.bench.samples import Samples
from verispec.bench.subject import DecodeRun, Subject, Writer, filler_tokens
from verispec.errors import BackendError

SETTLE_SECONDS = 0.05
"""Between two engines: threads of some spin for a while after their work."""
PASSES_A_TURN = 4

Result = TypeVar("Result")


@dataclass(slots=True)
class WriterRuns:
    """One engine's runs on a suite, by prompt id, and where its own text began to loop."""

    runs: dict[str, list[DecodeRun]] = field(default_factory=dict)
    measured: dict[str, int] = field(default_factory=dict)

    def rate(self) -> float:
        """Tokens per second over all prompts: tokens of all, over the median seconds of all."""
        tokens = seconds = 0.0
        for prompt, runs in self.runs.items():
            per_token = sorted(run.seconds_per_token for run in runs)[len(runs) // 2]
            tokens += self.measured[prompt]
            seconds += self.measured[prompt] * per_token
        return tokens / seconds if seconds else 0.0


@dataclass(slots=True)
class Comparison:
    """Everything one run measured, by the names of the engines."""

    vocabulary: int
    engines: dict[str, Writer] = field(default_factory=dict)
    passes: dict[int, dict[str, dict[int, Samples]]] = field(default_factory=dict)
    """Context -> engine -> rows -> seconds."""
    prompt: dict[str, Samples] = field(default_factory=dict)
    writers: dict[str, WriterRuns] = field(default_factory=dict)
    failed: list[NotMeasured] = field(default_factory=list)

    def attempt(self, engine: Writer, what: str, measure: Callable[[], Result]) -> Result | None:
        """A measurement, or None after noting why it failed; the others go on."""
        time.sleep(SETTLE_SECONDS)
        try:
            return measure()
        except BackendError as error:
            self.failed.append(NotMeasured(engine.name, f"{what}: {error}", "the other measurements went on"))
            return None


def compare_passes(
    comparison: Comparison, subjects: Sequence[Subject], rows: Sequence[int], context: int, turns: int
) -> None:
    """T(rows) behind ``context`` tokens: in each turn every subject takes every row count, order turning."""
    comparison.engines.update({subject.name: subject for subject in subjects})
    tokens = filler_tokens(context, comparison.vocabulary)
    table = comparison.passes.setdefault(context, {subject.name: {} for subject in subjects})
    for turn in range(turns):
        for subject in _turned(subjects, turn):
            for count in rows:
                seconds = comparison.attempt(
                    subject,
                    f"{count} rows at context {context}",
                    lambda s=subject, n=count: s.passes(
                        tokens, filler_tokens(n, comparison.vocabulary), PASSES_A_TURN
                    ),  # type: ignore[misc]
                )
                if seconds:
                    table[subject.name].setdefault(count, Samples()).add(seconds)


def compare_prompt(comparison: Comparison, subjects: Sequence[Subject], length: int, turns: int) -> None:
    """Seconds of a prompt of ``length`` tokens with the logits of its last row."""
    comparison.engines.update({subject.name: subject for subject in subjects})
    tokens = filler_tokens(length, comparison.vocabulary)
    for turn in range(turns):
        for subject in _turned(subjects, turn):
            seconds = comparison.attempt(
                subject,
                f"prompt of {length}",
                lambda s=subject: s.prompt(tokens, 1),  # type: ignore[misc]
            )
            if seconds:
                comparison.prompt.setdefault(subject.name, Samples()).add(seconds)


def compare_writers(
    comparison: Comparison,
    writers: Sequence[Writer],
    answers: Sequence[Answer],
    max_tokens: int,
    end_tokens: Sequence[int],
    turns: int,
    progress: Callable[[int, int], None] | None = None,
    length: Callable[[Sequence[int]], int] | None = None,
) -> None:
    """Every writer answers every prompt, in turns, up to where its own text begins to loop.

    Another engine's text is not ours: arithmetic differs. Its first answer finds its loop and is not timed. ``length``
    says how many tokens of a first answer are measured, 0 for none: ``before_loop`` where it is not given.
    """
    length = length or before_loop
    comparison.engines.update({writer.name: writer for writer in writers})
    total, done = (turns + 1) * len(answers), 0
    for turn in range(turns + 1):
        for answer in answers:
            for writer in _turned(writers, turn):
                record = comparison.writers.setdefault(writer.name, WriterRuns())
                prompt = answer.prompt.id
                cut = record.measured.get(prompt, 0) if turn else max_tokens
                if cut == 0:
                    continue
                run = comparison.attempt(
                    writer,
                    f"prompt {prompt}",
                    lambda w=writer, a=answer, n=cut: w.decode(a.prompt_tokens, n, end_tokens),  # type: ignore[misc]
                )
                if run is None:
                    continue
                if turn:
                    record.runs.setdefault(prompt, []).append(run)
                else:
                    record.measured[prompt] = length(run.tokens)
            done += 1
            if progress is not None:
                progress(done, total)


def before_loop(tokens: Sequence[int]) -> int:
    """How many tokens stand before a loop; 0 where they are too few to say anything about a rate."""
    from verispec.bench.answers import FEWEST_TOKENS

    start = loop_start(tokens)
    length = len(tokens) if start is None else start
    return length if length >= FEWEST_TOKENS else 0


def _turned(engines: Sequence[Any], turn: int) -> list[Any]:
    """A B C, then C B A: what drifts over a run drifts over all."""
    return list(engines) if turn % 2 == 0 else list(engines)[::-1]
