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
        """``room``: how many may wait. ``parallel``: how many are served at once, each on a seat of its own."""
        self._room = room
        self._parallel = parallel
        self._seated = 0
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
            waiting = len(self._jobs) + len(jobs) - max(0, self._parallel - self._seated)
            if waiting > self._room:
                turns = 1 + (waiting - self._room) // self._parallel
                raise QueueFullError(self._room, turns * self._answer_seconds)
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

    def seat(self, job: Job) -> None:
        """Takes ``job`` out of the line, to be served."""
        with self._changed:
            self._jobs.remove(job)
            self._seated += 1

    def unseat(self) -> None:
        """One that was served is gone."""
        with self._changed:
            self._seated -= 1

    def note_answer(self, seconds: float) -> None:
        """An answer took that long, the wait for a seat not counted."""
        self._answer_seconds += 0.2 * (seconds - self._answer_seconds)

    def close(self) -> None:
        """Lets nobody join any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
