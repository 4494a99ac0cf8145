"""What a request cost: OpenAI's token counts, and the server's own clocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from verispec.engine.completion import Completion


def usage(completions: Sequence[Completion], choices: int) -> dict[str, Any]:
    """Tokens over all choices; ``choices`` of them go on from each prompt, which counts once.

    ``cached_tokens`` are those of the prompt's first choice. Accepted prediction tokens are part of the completion
    tokens, rejected ones are not.
    """
    firsts = completions[::choices]
    prompt = sum(len(one.prompt_tokens) for one in firsts)
    completion = sum(len(one.tokens) for one in completions)
    drafted = sum(one.drafted for one in completions)
    accepted = sum(one.accepted for one in completions)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(one.counters.reused_tokens for one in firsts)},
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        },
    }


def timings(completions: Sequence[Completion]) -> dict[str, Any]:
    """The server's clocks over all choices, in seconds since the request was made.

    ``tokens_per_second`` is over the time from the first token of any choice to the last, and counts the tokens behind
    each choice's first round. ``passes`` are those that gave tokens.
    """
    clocks = [one.timings for one in completions]
    first, last = min(clock.first_token for clock in clocks), max(clock.total for clock in clocks)
    behind = sum(len(one.tokens) - (1 + one.rounds[0][1]) for one in completions if one.rounds)
    return {
        "queued_seconds": min(clock.queued for clock in clocks),
        "first_token_seconds": first,
        "last_token_seconds": last,
        "tokens_per_second": max(behind, 0) / (last - first) if last > first else 0.0,
        "prompt_seconds": sum(clock.prompt for clock in clocks),
        "draft_seconds": sum(clock.draft for clock in clocks),
        "pass_seconds": sum(clock.passes for clock in clocks),
        "sampling_seconds": sum(clock.sampling for clock in clocks),
        "prompt_passes": sum(one.counters.prompt_passes for one in completions),
        "passes": sum(one.passes for one in completions),
        "drafted": sum(one.drafted for one in completions),
        "accepted": sum(one.accepted for one in completions),
        "accepted_by_position": [
            sum(counts)
            for counts in zip_longest(*(one.accepted_by_position() for one in completions), fillvalue=0)
        ],
        "replays": sum(one.counters.replays for one in completions),
        "drafter_faults": sum(len(one.faults) for one in completions),
        "spec_mode": completions[0].strategy,
    }
