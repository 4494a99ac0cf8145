"""The engine beside an event loop: passes run in a thread of their own, answers arrive as asyncio has them.

The thread gives up the interpreter while a pass runs, so that a long one delays nobody's ``/health``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from verispec.engine.batching.job import Event, Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.batching.statistics import Statistics
from verispec.engine.completion import Chunk, Completion
from verispec.engine.model import Model
from verispec.engine.prompt import Prompt
from verispec.errors import DrainingError, EngineFailedError

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

    def __init__(self, model: Model, limits: SchedulerLimits) -> None:
        self.model = model
        self.limits = limits
        self._scheduler = Scheduler(model, limits)
        self._answers: dict[Job, Answer] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = False
        self.failure: BaseException | None = None
        """What has ended the thread before its time."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called on the event loop when that happens."""
        self._thread = threading.Thread(target=self._run, name="verispec-engine", daemon=True)

    @property
    def statistics(self) -> Statistics:
        return self._scheduler.current_statistics()

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
        """Queues all of ``jobs`` or none; for the event loop's thread.

        Raises QueueFullError, DrainingError or EngineFailedError.
        """
        if self.failure is not None:
            raise EngineFailedError("the engine has failed: expected its thread alive, found it dead")
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
        self._stop = True
        while self.alive:
            self._scheduler.end_all(DrainingError("the engine is shutting down: expected a longer drain"))
            await asyncio.sleep(_DRAIN_POLL_SECONDS)

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:  # nobody may wait for ever
            self.failure = error
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._fail)

    def _serve(self) -> None:
        self.model.pass_costs()
        scheduler = self._scheduler
        while not (self._stop and scheduler.idle):
            if scheduler.idle and not scheduler.line.wait(_WAIT_SECONDS):
                continue
            passes = scheduler.statistics.passes
            events = scheduler.step()
            if events:
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._deliver, events)
            if (
                scheduler.statistics.passes == passes
            ):  # the library holds every sequence: somebody waits for one
                time.sleep(_NOBODY_RUNS_SECONDS)

    def _deliver(self, events: list[tuple[Job, Event]]) -> None:
        for job, event in events:
            answer = self._answers[job] if isinstance(event, Chunk) else self._answers.pop(job)
            answer.deliver(event)

    def _fail(self) -> None:
        """Whatever was delivered before is; all others learn that nothing more comes."""
        self._scheduler.line.close()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer.deliver(
                EngineFailedError("the engine has failed: expected an answer, found its thread dead")
            )
        self.on_failure()
