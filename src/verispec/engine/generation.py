"""A running generation: iterate for text as it becomes certain, cancel at any time, ask for the whole at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from verispec.engine.adaptive_width import AdaptiveWidth
from verispec.engine.pass_cost import CostTable
from verispec.engine.request import Counters, Request
from verispec.engine.request_options import RequestOptions
from verispec.engine.round import run_round
from verispec.engine.sampler import Sampled


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one round added. ``text`` may be empty while half a character or a possible stop string is held back."""

    text: str
    tokens: tuple[int, ...]
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of wall time since the request began, and rates derived from them."""

    first_token: float
    total: float
    prompt: float
    draft: float
    passes: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Completion:
    """The whole answer and how it was made.

    ``tokens`` include an end token where one ended the answer; ``text`` holds neither it nor the stop string.
    ``finish_reason`` is ``stop``, ``length``, ``context`` or ``cancelled``. ``strategy`` is the one that ran,
    ``rounds`` holds (drafted, accepted) of every target pass, ``pass_costs`` what an
    adaptive draft width went by.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: str
    stop_string: str | None
    logprobs: tuple[Sampled, ...] | None
    prompt_tokens: tuple[int, ...]
    seed: int
    strategy: str
    rounds: tuple[tuple[int, int], ...]
    faults: tuple[str, ...]
    counters: Counters
    timings: Timings
    options: RequestOptions = field(repr=False)
    pass_costs: CostTable | None = field(repr=False)

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


class Generation(Iterator[Chunk]):
    """An iterator over rounds. A failure inside one leaves the request as it was: iterating again goes on."""

    def __init__(
        self,
        request: Request,
        lock: AbstractContextManager[Any],
        release: Callable[[], None],
        describe: Callable[[Generation], Completion],
    ) -> None:
        self.request = request
        self.started = time.perf_counter()
        self.first_token: float | None = None
        self.last_token: float | None = None
        self._delivered = 0
        self._lock = lock
        self._release = release
        self._describe = describe
        self._completion: Completion | None = None

    def __next__(self) -> Chunk:
        """Runs one round. Raises StopIteration when the generation is over."""
        request = self.request
        if self._delivered == len(request.emissions):
            if self._completion is not None or not self._advance():
                self.close()
                raise StopIteration
            self.last_token = time.perf_counter()
            self.first_token = self.first_token or self.last_token
        emitted = request.emissions[self._delivered]
        tokens = tuple(sampled.token for sampled in emitted.tokens)
        self._delivered += (
            1  # until here an interrupted call loses nothing: the next one delivers the same round
        )
        return Chunk(emitted.text, tokens, emitted.drafted, emitted.accepted)

    def _advance(self) -> bool:
        """Runs one round, after what is left of the prompt; False when the request is over."""
        request = self.request
        while True:
            with self._lock:  # another thread may have closed the generation meanwhile
                if self._completion is not None:
                    return False
                request.recover()
                if request.finish_reason is not None:
                    return False
                if not request.process_prompt():
                    run_round(request)
                    return True

    def cancel(self) -> None:
        """Ends the generation before its next pass; safe from any thread or signal handler."""
        self.request.cancelled = True

    def close(self) -> None:
        """Gives the sequence back. Iterating further raises StopIteration."""
        with self._lock:
            if self._completion is None:
                self.request.recover()
                if self.request.finish_reason is None:
                    self.cancel()
                completion = self._describe(self)
                self._release()
                self._completion = completion

    def result(self) -> Completion:
        """Runs to the end and gives the whole answer."""
        for _ in self:
            pass
        assert self._completion is not None
        return self._completion

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def describe(generation: Generation, options: RequestOptions) -> Completion:
    """The completion of a generation that is over."""
    request = generation.request
    emissions = request.emissions
    policy = request.drafter.policy
    costs = policy.cost if isinstance(policy, AdaptiveWidth) else None
    sampled = tuple(one for emitted in emissions for one in emitted.tokens)
    return Completion(
        text="".join(emitted.text for emitted in emissions),
        tokens=tuple(one.token for one in sampled),
        finish_reason=request.finish_reason or "cancelled",
        stop_string=request.decoder.stop_string,
        logprobs=sampled if options.sampling.logprobs is not None else None,
        prompt_tokens=tuple(request.tokens[: request.prompt_length]),
        seed=request.sampler.seed,
        strategy=options.resolution.strategy.name,
        rounds=tuple((emitted.drafted, emitted.accepted) for emitted in emissions),
        faults=tuple(request.drafter.faults),
        counters=request.counters,
        timings=_timings(generation, len(sampled)),
        options=options,
        pass_costs=costs if isinstance(costs, CostTable) else None,
    )


def _timings(generation: Generation, tokens: int) -> Timings:
    """The rate counts the tokens behind the first round, over the time since it ended."""
    counters, started = generation.request.counters, generation.started
    first, last = generation.first_token or started, generation.last_token or started
    after_first = tokens - len(generation.request.emissions[0].tokens) if generation.request.emissions else 0
    return Timings(
        first_token=first - started,
        total=last - started,
        prompt=counters.prompt_seconds,
        draft=counters.draft_seconds,
        passes=counters.pass_seconds,
        tokens_per_second=after_first / (last - first) if last > first else 0.0,
    )
