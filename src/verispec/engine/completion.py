"""What a generation gives: a chunk a round while it runs, the whole answer at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from verispec.artifacts.draft_manifest import KINDS as ARTIFACT_KINDS
from verispec.drafting.chained_strategies import JOIN
from verispec.engine.adaptive_width import AdaptiveWidth
from verispec.engine.draft_health import health_warnings
from verispec.engine.pass_cost import CostTable
from verispec.engine.request import Counters, Emitted, Request, Schedule
from verispec.engine.request_options import RequestOptions
from verispec.engine.sampler import Sampled
from verispec.engine.shared_cost import SharedCost


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one round added. ``text`` may be empty while half a character or a possible stop string is held back."""

    text: str
    sampled: tuple[Sampled, ...]
    drafted: int
    accepted: int

    @property
    def tokens(self) -> tuple[int, ...]:
        """Token ids; the first ``accepted`` had been drafted."""
        return tuple(one.token for one in self.sampled)

    @classmethod
    def of(cls, emitted: Emitted) -> Chunk:
        return cls(emitted.text, tuple(emitted.tokens), emitted.drafted, emitted.accepted)


@dataclass(slots=True)
class Clock:
    """Readings of ``time.perf_counter`` in a request's life; ``begun`` is when it was let in."""

    started: float = field(default_factory=time.perf_counter)
    begun: float | None = None
    first_token: float | None = None
    last_token: float | None = None

    def emitted(self) -> None:
        """Notes that tokens have come now."""
        self.last_token = time.perf_counter()
        self.first_token = self.first_token or self.last_token


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of wall time since the request was made, and rates derived from them.

    ``queued`` is how long it waited to be let in, ``passes`` the time from asking for a pass to its outcome. ``prompt``
    is the time of the passes that read nothing but the prompt: 0 for one so short that the first round's pass read it.
    ``draft`` and ``sampling`` are what rounds spend beside their passes.
    """

    queued: float
    first_token: float
    total: float
    prompt: float
    draft: float
    passes: float
    sampling: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Completion:
    """The whole answer and how it was made.

    ``tokens`` include an end token where one ended the answer; ``text`` holds neither it nor the stop string.
    ``finish_reason`` is ``stop``, ``length``, ``context`` or ``cancelled``; ``ended_by`` says it more closely:
    ``end_token``, ``stop_string``, ``grammar``, ``max_tokens``, ``context`` or ``cancelled``. ``strategy`` is the one
    that ran, ``rounds`` holds (drafted, accepted) of every target pass, ``schedule`` what each round was allowed,
    ``pass_costs``, ``draft_seconds`` (a token) and ``block_seconds`` (a proposal) what an adaptive draft width went by.
    ``declined`` counts rounds in which the drafter could propose nothing at all, by reason. ``sources``, of a chain:
    whose proposal each round was, empty where there was none. ``warnings`` say that a draft artifact was accepted far
    less often than its manifest says.
    ``prompt_logprobs``, when asked for, has an entry a prompt token, the first without a log-probability.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: str
    ended_by: str
    stop_string: str | None
    logprobs: tuple[Sampled, ...] | None
    prompt_tokens: tuple[int, ...]
    prompt_logprobs: tuple[Sampled, ...] | None
    seed: int
    strategy: str
    rounds: tuple[tuple[int, int], ...]
    schedule: tuple[Schedule, ...]
    faults: tuple[str, ...]
    counters: Counters
    timings: Timings
    options: RequestOptions = field(repr=False)
    pass_costs: CostTable | None = field(repr=False)
    draft_seconds: float = 0.0
    block_seconds: float = 0.0
    declined: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def passes(self) -> int:
        """Target passes that gave tokens."""
        return len(self.rounds)

    @property
    def drafted(self) -> int:
        return sum(drafted for drafted, _ in self.rounds)

    @property
    def accepted(self) -> int:
        return sum(accepted for _, accepted in self.rounds)

    @property
    def accepted_per_pass(self) -> float:
        return self.accepted / len(self.rounds) if self.rounds else 0.0

    def accepted_by_position(self) -> list[int]:
        """In how many rounds the proposal's i-th token was accepted."""
        widest = max((accepted for _, accepted in self.rounds), default=0)
        return [sum(accepted > position for _, accepted in self.rounds) for position in range(widest)]


def describe(request: Request, clock: Clock, options: RequestOptions) -> Completion:
    """The completion of a request that is over."""
    emissions = request.emissions
    policy = request.drafter.policy
    cost = policy.cost if isinstance(policy, AdaptiveWidth) else None
    sampled = tuple(one for emitted in emissions for one in emitted.tokens)
    prompt = tuple(request.tokens[: request.prompt_length])
    return Completion(
        text="".join(emitted.text for emitted in emissions),
        tokens=tuple(one.token for one in sampled),
        finish_reason=request.finish_reason or "cancelled",
        ended_by="cancelled"
        if request.finish_reason == "cancelled"
        else request.decoder.ended_by or "cancelled",
        stop_string=request.decoder.stop_string,
        logprobs=sampled if options.sampling.logprobs is not None else None,
        prompt_tokens=prompt,
        prompt_logprobs=None if request.scores is None else request.scores.of(prompt),
        seed=request.sampler.seed,
        strategy=options.resolution.strategy.name,
        rounds=tuple((emitted.drafted, emitted.accepted) for emitted in emissions),
        schedule=tuple(emitted.schedule for emitted in emissions),
        faults=tuple(request.drafter.faults),
        counters=request.counters,
        timings=_timings(request, clock, len(sampled)),
        options=options,
        pass_costs=cost.table if isinstance(cost, SharedCost) else None,
        draft_seconds=policy.draft_seconds if isinstance(policy, AdaptiveWidth) else 0.0,
        block_seconds=policy.block_seconds if isinstance(policy, AdaptiveWidth) else 0.0,
        declined=request.drafter.declined,
        warnings=_warnings(request, options),
        sources=tuple(emitted.source for emitted in emissions) if options.resolution.is_chain else (),
    )


def _warnings(request: Request, options: RequestOptions) -> tuple[str, ...]:
    """What is unhealthy about the request's draft artifact; said in the log, too."""
    names = options.resolution.strategy.name.split(JOIN)
    artifact = next((name for name in names if name in ARTIFACT_KINDS), names[0])
    warnings = health_warnings(artifact, request.drafter.expected_acceptance, request.emissions)
    for warning in warnings:
        logging.getLogger("verispec").warning(warning)
    return warnings


def _timings(request: Request, clock: Clock, tokens: int) -> Timings:
    """The rate counts the tokens behind the first round, over the time since it ended."""
    counters, started = request.counters, clock.started
    first, last = clock.first_token or started, clock.last_token or started
    after_first = tokens - len(request.emissions[0].tokens) if request.emissions else 0
    return Timings(
        queued=(clock.begun or started) - started,
        first_token=first - started,
        total=last - started,
        prompt=counters.prompt_seconds,
        draft=counters.draft_seconds,
        passes=counters.pass_seconds,
        sampling=counters.sampling_seconds,
        tokens_per_second=after_first / (last - first) if last > first else 0.0,
    )
