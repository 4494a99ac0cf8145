"""The engine beside an event loop: passes run in a thread of their own, answers arrive as asyncio has them.

The thread gives up the interpreter while a pass runs, so that a long one delays nobody's ``/health``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from verispec.engine.batching.job import Event, Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.batching.statistics import Statistics
from verispec.engine.completion import Chunk, Completion
from verispec.engine.model import Model
from verispec.engine.prompt import Prompt
from verispec.errors import DrainingError

ServingLimits = SchedulerLimits

_WAIT_SECONDS = 0.5
_NOBODY_RUNS_SECONDS = 0.005
_DRAIN_POLL_SECONDS = 0.02


class Answer(AsyncIterator[Chunk]):
    """One request's chunks as they come. Iterating raises the error that ended it, when one did."""

    def __init__(self, job: Job) -> None:
        self.completion: Completion | None = None
        """Set when the iteration is over, also after ``cancel``, unless the request never began."""
        self._job = job
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._over = False

    def cancel(self) -> None:
        """Ends the request before its next pass; safe from anywhere, and harmless behind its end."""
        self._job.cancel()

    async def __anext__(self) -> Chunk:
        while not self._events:
            if self._over:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        event = self._events.popleft()
        if isinstance(event, Chunk):
            return event
        self._over = True
        if isinstance(event, Completion):
            self.completion = event
            raise StopAsyncIteration
        raise event

    async def result(self) -> Completion:
        """The whole answer."""
        async for _ in self:
            pass
        assert self.completion is not None
        return self.completion

    def deliver(self, event: Event) -> None:
        """Called on the event loop."""
        self._events.append(event)
        self._arrived.set()


class EngineThread:
    """Serves one model. Make it and ``submit`` on the event loop's thread."""

    def __init__(self, model: Model, limits: ServingLimits) -> None:
        self.model = model
        self.limits = limits
        self._scheduler = Scheduler(model, limits)
        self._answers: dict[Job, Answer] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="verispec-engine", daemon=True)

    @property
    def statistics(self) -> Statistics:
        return self._scheduler.statistics

    @property
    def alive(self) -> bool:
        """Whether requests are served."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begins to serve, for the running event loop. What a pass costs is measured first, if it was not yet."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def prepare(self, prompt: Prompt, options: Mapping[str, Any], **serving: Any) -> Job:
        """A checked request, ready to be queued; ``serving`` are the keyword arguments of ``Job``.

        Safe from any thread, and worth one for a long prompt, which is tokenised here. Raises what
        ``Model.prepare`` does.
        """
        return Job(self.model.prepare(prompt, options), **serving)

    def enqueue(self, jobs: Sequence[Job]) -> list[Answer]:
        """Queues all of ``jobs`` or none; raises QueueFullError or DrainingError. For the event loop's thread."""
        answers = [Answer(job) for job in jobs]
        self._answers.update(zip(jobs, answers, strict=True))
        try:
            self._scheduler.submit(*jobs)
        except BaseException:
            for job in jobs:
                del self._answers[job]
            raise
        return answers

    def submit(self, prompt: Prompt, options: Mapping[str, Any], **serving: Any) -> Answer:
        """``prepare`` and ``enqueue`` for one request."""
        return self.enqueue([self.prepare(prompt, options, **serving)])[0]

    async def drain(self, seconds: float) -> None:
        """Takes no new requests, lets those there finish for up to ``seconds``, ends the rest, and stops."""
        self._scheduler.line.close()
        loop = asyncio.get_running_loop()
        limit = loop.time() + seconds
        while not self._scheduler.idle and self.alive and loop.time() < limit:
            await asyncio.sleep(_DRAIN_POLL_SECONDS)
        self._scheduler.end_all(DrainingError("the engine is shutting down: expected a longer drain"))
        self._stop = True
        while self.alive:
            await asyncio.sleep(_DRAIN_POLL_SECONDS)

    def _run(self) -> None:
        try:
            self.model.pass_costs()
            while not (self._stop and self._scheduler.idle):
                if self._scheduler.idle and not self._scheduler.line.wait(_WAIT_SECONDS):
                    continue
                passes = self.statistics.passes
                self._hand_over(self._scheduler.step())
                if (
                    self.statistics.passes == passes
                ):  # the library holds every sequence: somebody waits for one
                    time.sleep(_NOBODY_RUNS_SECONDS)
        except BaseException as error:  # nobody may wait for ever
            self._failure = error
            self._scheduler.line.close()
            self._hand_over([(job, error_of(error)) for job in list(self._answers)])
            raise

    def _hand_over(self, events: list[tuple[Job, Event]]) -> None:
        if events:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._deliver, events)

    def _deliver(self, events: list[tuple[Job, Event]]) -> None:
        for job, event in events:
            answer = self._answers[job] if isinstance(event, Chunk) else self._answers.pop(job)
            answer.deliver(event)


def error_of(error: BaseException) -> Exception:
    """What those who wait are told when the engine's thread dies."""
    return DrainingError(f"the engine has stopped: {type(error).__name__}")
