"""Many requests of one model: who is let in, and whose turn it is.

Every request has its own round, strategy, sampler and draft width. They meet only in the target's pass, where by row
invariance (C1) none of them can tell that it has company.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from verispec.engine.batching.job import Event, Job
from verispec.engine.batching.prefixes import Prefixes
from verispec.engine.batching.statistics import Statistics
from verispec.engine.batching.turns import Turn, run_turns, take_turns
from verispec.engine.batching.waiting_line import WaitingLine
from verispec.engine.completion import Chunk, Completion
from verispec.engine.model import Model
from verispec.errors import BackendError, QueueFullError


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """``parallel``: requests at once. ``queue``: requests that may wait. ``prompt_rows``: rows of a pass that prompts
    may take while others write. ``prefix_cache_bytes``: memory for prefixes; 0 keeps none."""

    parallel: int = 8
    queue: int = 64
    prompt_rows: int = 64
    prefix_cache_bytes: int = 256 << 20


class Scheduler:
    """``submit``, ``close`` and ``end_all`` may be called from any thread, ``step`` from one at a time."""

    def __init__(self, model: Model, limits: SchedulerLimits) -> None:
        self.model = model
        self.limits = limits
        self.statistics = Statistics()
        self.line = WaitingLine(limits.queue, limits.parallel)
        self._rows = model.backend.capabilities.max_rows
        self._running: list[Job] = []
        self._prefixes = Prefixes(model.backend, limits.prefix_cache_bytes)

    def submit(self, *jobs: Job) -> None:
        """Queues all of ``jobs`` or none. Raises QueueFullError, or DrainingError once ``line`` is closed."""
        try:
            self.line.join(list(jobs))
        except QueueFullError:
            self.statistics.rejected_requests += len(jobs)
            raise

    def end_all(self, error: Exception) -> None:
        """Ends every request there with ``error``, before the next pass."""
        for job in [*self.line.jobs, *self._running]:
            job.end_with(error)

    def current_statistics(self) -> Statistics:
        """What has been counted, with who waits now."""
        self.statistics.waiting = len(self.line.jobs)
        return self.statistics

    @property
    def idle(self) -> bool:
        return (
            not self.line.jobs and not self._running
        )  # in this order: who is let in runs before it leaves the line

    def step(self) -> list[tuple[Job, Event]]:
        """Lets in who fits, runs one pass over whatever may run, and gives what became of whom, in order."""
        with self.model.lock:
            events = self._see_out()
            self._admit()
            begun = [job for job in self._running if job.request is not None]  # the others failed to begin
            turns = take_turns(begun, self._rows, self.limits.prompt_rows)
            if turns:
                events += self._run(turns)
            events += self._see_out()
        self._next_turns(turns)
        self.statistics.running = len(self._running)
        return events

    def _next_turns(self, turns: list[Turn]) -> None:
        """Whoever had no room in this pass is first in the next; among the others another one begins."""
        took = [job for job in self._running if any(turn.job is job for turn in turns)]
        passed_over = [job for job in self._running if job not in took]
        self._running = [*passed_over, *took[1:], *took[:1]]

    def _see_out(self) -> list[tuple[Job, Event]]:
        """Whoever is over, failed, cancelled or late leaves, and gives back its sequence."""
        now = time.perf_counter()
        out = self.line.take_out(lambda job: job.over(now))
        out += [job for job in self._running if job.over(now)]
        return [(job, self._end(job)) for job in out]

    def _end(self, job: Job) -> Completion | Exception:
        if job in self._running:
            self._running.remove(job)
            self.line.unseat()
        outcome = job.outcome()
        if job.request is not None:
            with suppress(BackendError):  # the model may have been closed
                self.model.backend.close_sequence(job.request.target.sequence)
        if isinstance(outcome, Completion) and outcome.finish_reason != "cancelled":
            self.line.note_answer(time.perf_counter() - (job.clock.begun or job.clock.started))
        self.statistics.count_end(outcome)
        return outcome

    def _admit(self) -> None:
        while len(self._running) < self.limits.parallel:
            waiting = self.line.jobs
            job = next(
                (job for job in waiting if not self._prefixes.worth_waiting_for(job, self._running)), None
            )
            if job is None:
                return
            try:
                sequence = self.model.backend.open_sequence()
            except BackendError:  # others hold them all: the model is a library too
                return
            self._running.append(job)
            self.line.seat(job)
            self._begin(job, sequence)

    def _begin(self, job: Job, sequence: int) -> None:
        try:
            self._prefixes.load(job, sequence)
            request = self.model.open(job.prepared, sequence)
            if job.prefix is not None:
                self._prefixes.prepare(request)
            job.begin(request)
        except Exception as error:
            self.model.backend.close_sequence(sequence)
            job.end_with(error)

    def _run(self, turns: list[Turn]) -> list[tuple[Job, Event]]:
        started = time.perf_counter()
        run_turns(self.model.backend, turns)
        seconds = time.perf_counter() - started
        self.statistics.count_pass(seconds, sum(len(turn.share.tokens) for turn in turns), len(turns))
        events: list[tuple[Job, Event]] = []
        for turn in turns:
            job = turn.job
            self._prefixes.keep(job)
            for emitted in job.new_emissions():
                self.statistics.count_round(emitted)
                events.append((job, Chunk.of(emitted)))
        self._prefixes.report(self.statistics)
        return events
