"""verispec as a writer that also says what its drafter did: each round, and how much of the time it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.drafter_intervals import Interval, mean, share

from verispec.bench.comparison import WriterRuns
from verispec.bench.own_engine import ENGINE
from verispec.bench.subject import DecodeRun, Writer
from verispec.engine.completion import Completion
from verispec.engine.model import Model


@dataclass(frozen=True, slots=True)
class Written:
    """One answer. ``draft_seconds`` of its writing went to the drafter: to proposing and to taking in hidden states."""

    run: DecodeRun
    completion: Completion
    draft_seconds: float


class DraftingWriter(Writer):
    """A loaded model with the options that its answers are written with; it keeps all answers, by prompt."""

    engine = ENGINE

    def __init__(self, model: Model, name: str, options: Mapping[str, Any]) -> None:
        """Raises what is wrong with ``options``: OptionError, UnsupportedError."""
        model.prepare([0], options)
        self.name = name
        self.model = model
        self.options = dict(options)
        self.speculates = options["spec_mode"] != "off"
        self.written: dict[tuple[int, ...], list[Written]] = {}

    def describe(self) -> Mapping[str, Any]:
        hidden = ("spec_draft_model", "drafter_deadline")
        return {name: value for name, value in self.options.items() if name not in hidden}

    def decode(self, prompt: Sequence[int], max_tokens: int, end_tokens: Sequence[int]) -> DecodeRun:
        """The end tokens are the model's own: they need not be given."""
        with self.model.stream(list(prompt), max_tokens=max_tokens, **self.options) as generation:
            counters = generation.request.counters
            next(generation, None)
            before = counters.draft_seconds
            completion = generation.result()
        timings = completion.timings
        first_round = completion.rounds[0][1] + 1 if completion.rounds else 0
        run = DecodeRun(
            completion.tokens,
            max(len(completion.tokens) - first_round, 0),
            timings.total - timings.first_token,
            timings.first_token,
            completion.passes,
            completion.drafted,
            completion.accepted,
        )
        written = Written(run, completion, counters.draft_seconds - before)
        self.written.setdefault(tuple(prompt), []).append(written)
        return run

    def close(self) -> None:
        """The model belongs to whoever loaded it."""

    def timed(self) -> list[list[Written]]:
        """The answers of each prompt but the first, which captures passes and finds where the text loops."""
        return [answers[1:] for answers in self.written.values() if len(answers) > 1]


def describe_drafting(writer: DraftingWriter) -> dict[str, Any]:
    """Passes, acceptance and the drafter's share of the time, over the last answer to each prompt.

    Position i of ``accepted_by_position``: of the proposals that had an i-th token, the share of which it and all
    before it were accepted; ``accepted_behind_accepted`` counts only those whose tokens before it were.
    """
    last = [answers[-1] for answers in writer.timed()]
    rounds = [one.completion.rounds for one in last]
    sources: dict[str, int] = {}
    for one in last:
        for source in one.completion.sources:
            sources[source or "nobody"] = sources.get(source or "nobody", 0) + 1
    return {
        "prompts": len(last),
        "tokens": sum(len(one.run.tokens) for one in last),
        "passes": sum(len(one) for one in rounds),
        "tokens_per_pass": _over(
            [len(one.run.tokens) for one in last], [len(one.completion.rounds) for one in last]
        ),
        "drafted": sum(one.completion.drafted for one in last),
        "accepted": sum(one.completion.accepted for one in last),
        "accepted_of_drafted": _over(
            [one.completion.accepted for one in last], [one.completion.drafted for one in last]
        ),
        "accepted_by_position": by_position(rounds, False),
        "accepted_behind_accepted": by_position(rounds, True),
        "drafter_share_of_time": _over([one.draft_seconds for one in last], [one.run.seconds for one in last])
        if writer.speculates
        else None,
        "rounds_by_source": sources,
        "faults": [fault for one in last for fault in one.completion.faults],
    }


def by_position(
    rounds: Sequence[Sequence[tuple[int, int]]], behind_accepted: bool
) -> list[dict[str, float | int] | None]:
    """The share of accepted tokens by their place in the proposal; ``rounds`` has (drafted, accepted), a list a
    prompt. ``behind_accepted``: among those alone whose tokens before were accepted."""
    widest = max((drafted for one in rounds for drafted, _ in one), default=0)
    found = []
    for place in range(widest):
        reached = [
            [
                accepted
                for drafted, accepted in one
                if drafted > place and (accepted >= place or not behind_accepted)
            ]
            for one in rounds
        ]
        found.append(
            _over([sum(count > place for count in one) for one in reached], [len(one) for one in reached])
        )
    return found


def _over(parts: Sequence[float], wholes: Sequence[float]) -> dict[str, float | int] | None:
    return share(parts, wholes).as_dict() if any(whole > 0 for whole in wholes) else None


def rate_ratio(record: WriterRuns, other: WriterRuns) -> Interval | None:
    """How many times faster than ``other`` a writer is: the mean over the prompts that both have answered."""
    both = [prompt for prompt in record.runs if prompt in other.runs]
    if not both:
        return None
    return mean([median_seconds(other, prompt) / median_seconds(record, prompt) for prompt in both])


def median_seconds(record: WriterRuns, prompt: str) -> float:
    """Seconds a token on one prompt."""
    per_token = sorted(run.seconds_per_token for run in record.runs[prompt])
    middle = len(per_token) // 2
    return per_token[middle] if len(per_token) % 2 else (per_token[middle - 1] + per_token[middle]) / 2
