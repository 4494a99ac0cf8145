"""Requests that wait to be let in: a bounded line."""

from __future__ import annotations

import threading
from collections.abc import Callable

from verispec.engine.batching.job import Job
from verispec.errors import DrainingError, QueueFullError

_ASSUMED_ANSWER_SECONDS = 1.0
"""How long an answer takes, for a full line's advice when to try again, before one has been seen."""


class WaitingLine:
    """First come, first served. Safe to use from any thread."""

    def __init__(self, room: int, parallel: int) -> None:
        """``room``: how many may wait. ``parallel``: how many are served at once."""
        self._room = room
        self._parallel = parallel
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._answer_seconds = _ASSUMED_ANSWER_SECONDS

    @property
    def jobs(self) -> list[Job]:
        """Who waits, in order."""
        with self._changed:
            return list(self._jobs)

    def join(self, jobs: list[Job]) -> None:
        """Adds all of ``jobs`` or none. Raises QueueFullError, or DrainingError once the line is closed."""
        with self._changed:
            if self._closed:
                raise DrainingError("the engine is shutting down: expected no new request, found one")
            if len(self._jobs) + len(jobs) > self._room:
                turns = (len(self._jobs) + len(jobs)) / self._parallel
                raise QueueFullError(self._room, max(1.0, turns * self._answer_seconds))
            self._jobs += jobs
            self._changed.notify()

    def wait(self, seconds: float) -> bool:
        """Returns when somebody waits or the line is closed, at the latest after ``seconds``; whether somebody does."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed, seconds)
            return bool(self._jobs)

    def take_out(self, which: Callable[[Job], bool]) -> list[Job]:
        """Removes all that ``which`` says yes to, in order."""
        with self._changed:
            out = [job for job in self._jobs if which(job)]
            if out:
                self._jobs = [job for job in self._jobs if job not in out]
            return out

    def first(self, which: Callable[[Job], bool]) -> Job | None:
        """The first in line that ``which`` says yes to; it stays."""
        with self._changed:
            return next((job for job in self._jobs if which(job)), None)

    def leave(self, job: Job) -> None:
        """Removes ``job``, which is let in."""
        with self._changed:
            self._jobs.remove(job)

    def note_answer(self, seconds: float) -> None:
        """An answer took that long."""
        self._answer_seconds += 0.2 * (seconds - self._answer_seconds)

    def close(self) -> None:
        """Lets nobody join any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
