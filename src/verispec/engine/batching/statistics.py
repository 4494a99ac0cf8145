"""What an engine that serves many requests has counted."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from verispec.engine.completion import Completion
from verispec.engine.request import Emitted
from verispec.errors import DeadlineError, DrainingError, RequestCancelledError

_KINDS: dict[type[Exception], str] = {
    RequestCancelledError: "cancelled",
    DeadlineError: "deadline",
    DrainingError: "drained",
}


@dataclass(slots=True)
class Distribution:
    """Observations in buckets: ``counts[i]`` of them are at most ``bounds[i]`` and over the bound before."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    """One more than there are bounds: the last is of those over all of them."""
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class Statistics:
    """Counters since the start, and gauges, for others to read; what they read is a moment old.

    ``accepted_per_position[i]``: rounds in which the proposal's i-th token was accepted. ``replays``
    and ``guarded_requests`` (those that a replay has clamped to their rollback window) stay 0 for targets whose whole
    state is keys and values.
    """

    waiting: int = 0
    running: int = 0
    passes: int = 0
    pass_seconds: Distribution = field(
        default_factory=lambda: Distribution((0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 1.0))
    )
    batch_rows: Distribution = field(default_factory=lambda: Distribution((1, 2, 4, 8, 16, 32, 64, 128, 256)))
    batch_requests: Distribution = field(default_factory=lambda: Distribution((1, 2, 4, 8, 16, 32, 64)))
    first_token_seconds: Distribution = field(
        default_factory=lambda: Distribution((0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0))
    )
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    generated_tokens: int = 0
    replays: int = 0
    guarded_requests: int = 0
    drafter_faults: int = 0
    drafter_warnings: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    prefix_bytes: int = 0
    prefix_evicted_blocks: int = 0
    rejected_requests: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    """Requests that are over, by finish reason, or ``deadline``, ``drained`` or ``error``."""

    def count_pass(self, seconds: float, rows: int, requests: int) -> None:
        self.passes += 1
        self.pass_seconds.observe(seconds)
        self.batch_rows.observe(rows)
        self.batch_requests.observe(requests)

    def count_round(self, emitted: Emitted) -> None:
        self.generated_tokens += len(emitted.tokens)
        if emitted.drafted:
            self.drafts += 1
            self.draft_tokens += emitted.drafted
            self.accepted_tokens += emitted.accepted
            missing = emitted.accepted - len(self.accepted_per_position)
            self.accepted_per_position += [0] * missing
            for position in range(emitted.accepted):
                self.accepted_per_position[position] += 1

    def count_end(self, outcome: Completion | Exception) -> None:
        if isinstance(outcome, Exception):
            self.finished[_KINDS.get(type(outcome), "error")] += 1
            return
        self.finished[outcome.finish_reason] += 1
        self.prompt_tokens += len(outcome.prompt_tokens)
        self.replays += outcome.counters.replays
        self.guarded_requests += outcome.counters.guarded_round is not None
        self.drafter_faults += len(outcome.faults)
        self.drafter_warnings += len(outcome.warnings)
        if outcome.rounds:
            self.first_token_seconds.observe(outcome.timings.first_token)
