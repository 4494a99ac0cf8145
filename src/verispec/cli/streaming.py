"""Showing a generation on the terminal, and saying how it went."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from verispec.cli.output import printable_text
from verispec.engine.completion import Completion
from verispec.engine.generation import Generation


def show(generation: Generation, quiet: bool = False) -> Completion:
    """Prints text as it becomes certain. Ctrl-C ends the answer between two passes; what was written stays.

    A terminal gets it with control characters escaped, a pipe or a file as the model wrote it.
    """
    terminal = sys.stdout.isatty()
    with _interrupt_cancels(generation):
        for chunk in generation:
            if not quiet and chunk.text:
                sys.stdout.write(printable_text(chunk.text) if terminal else chunk.text)
                sys.stdout.flush()
        if not quiet:
            sys.stdout.write("\n")
            sys.stdout.flush()
        return generation.result()


@contextmanager
def _interrupt_cancels(generation: Generation) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def cancel(_signal: int, _frame: FrameType | None) -> None:
        generation.cancel()

    previous = signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def rate(completion: Completion) -> float | None:
    """Tokens a second behind the first pass; None when one pass wrote them all."""
    return completion.timings.tokens_per_second if completion.passes > 1 else None


def summary(completion: Completion) -> str:
    """One line: tokens, rate, passes, what was proposed and accepted, the strategy, and why the answer ended."""
    written, measured = len(completion.tokens), rate(completion)
    parts = [
        f"{written} token{'' if written == 1 else 's'}",
        *(() if measured is None else (f"{measured:.1f} tokens/s",)),
        f"{completion.passes} target passes",
        f"{completion.drafted} proposed",
        f"{completion.accepted_per_pass:.2f} accepted a pass",
        f"strategy {completion.strategy}",
        f"finish {completion.finish_reason}",
        f"seed {completion.seed}",
    ]
    unread = completion.options.resolution.unread
    if unread:
        parts.append(f"not read by it: {' '.join(unread)}")
    replays = completion.counters.replays
    if replays:
        parts.append(f"{replays} replay{'' if replays == 1 else 's'}")
    if completion.faults:
        parts.append(f"{len(completion.faults)} drafter faults")
    parts += completion.warnings
    return ", ".join(parts)


def completion_dict(completion: Completion) -> dict[str, Any]:
    """The answer and its counts as JSON."""
    return {
        "text": completion.text,
        "tokens": list(completion.tokens),
        "finish_reason": completion.finish_reason,
        "stop_string": completion.stop_string,
        "prompt_tokens": len(completion.prompt_tokens),
        "seed": completion.seed,
        "strategy": completion.strategy,
        "unread_options": list(completion.options.resolution.unread),
        "passes": completion.passes,
        "drafted": completion.drafted,
        "accepted": completion.accepted,
        "accepted_per_pass": completion.accepted_per_pass,
        "accepted_by_position": completion.accepted_by_position(),
        "replays": completion.counters.replays,
        "guarded_round": completion.counters.guarded_round,
        "faults": list(completion.faults),
        "warnings": list(completion.warnings),
        "reused_tokens": completion.counters.reused_tokens,
        "logprobs": [
            {
                "token": sampled.token,
                "logprob": sampled.logprob,
                "alternatives": [{"token": token, "logprob": value} for token, value in sampled.alternatives],
            }
            for sampled in completion.logprobs
        ]
        if completion.logprobs is not None
        else None,
        "timings": {
            "first_token_seconds": completion.timings.first_token,
            "total_seconds": completion.timings.total,
            "prompt_seconds": completion.timings.prompt,
            "prompt_passes": completion.counters.prompt_passes,
            "draft_seconds": completion.timings.draft,
            "pass_seconds": completion.timings.passes,
            "sampling_seconds": completion.timings.sampling,
            "tokens_per_second": rate(completion),
        },
    }
