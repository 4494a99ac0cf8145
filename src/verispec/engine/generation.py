"""A running generation: iterate for text as it becomes certain, cancel at any time, ask for the whole at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from verispec.engine.completion import Chunk, Clock, Completion, describe
from verispec.engine.model_lock import ModelLock
from verispec.engine.request import Request
from verispec.engine.request_options import RequestOptions
from verispec.engine.shared_pass import run_alone
from verispec.engine.step import next_step


class Generation(Iterator[Chunk]):
    """An iterator over rounds. A failure inside one leaves the request as it was: iterating again goes on."""

    def __init__(
        self,
        request: Request,
        lock: ModelLock,
        release: Callable[[], None],
        options: RequestOptions,
        kept: bool,
    ) -> None:
        """``kept``: the sequence outlives the request, and the drafter's cache with it."""
        self.request = request
        self.clock = Clock()
        self.clock.begun = self.clock.started
        self._delivered = 0
        self._lock = lock
        self._release = release
        self._options = options
        self._kept = kept
        self._completion: Completion | None = None

    def __next__(self) -> Chunk:
        """Runs one round. Raises StopIteration when the generation is over."""
        request = self.request
        if self._delivered == len(request.emissions):
            if self._completion is not None or not self._advance():
                self.close()
                raise StopIteration
            self.clock.emitted()
        emitted = request.emissions[self._delivered]
        self._delivered += 1  # until here an interrupted call loses nothing: the next delivers the same round
        return Chunk.of(emitted)

    def _advance(self) -> bool:
        """Runs one round, after what is left of the prompt; False when the request is over."""
        request = self.request
        while True:
            with self._lock:  # another thread may have closed the generation meanwhile
                if self._completion is not None:
                    return False
                step = next_step(request, request.target.max_rows)
                if step is None:
                    return False
                run_alone(request.target.backend, step)
                if len(request.emissions) > self._delivered:
                    return True

    def cancel(self) -> None:
        """Ends the generation before its next pass; safe from any thread or signal handler."""
        self.request.cancelled = True

    def close(self) -> None:
        """Gives the sequence back. Iterating further raises StopIteration."""
        with self._lock:
            if self._completion is None:
                self.request.recover()
                if not self.request.over:
                    self.cancel()
                if self._kept:
                    self.request.settle()
                completion = describe(self.request, self.clock, self._options)
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
        self._lock.finalise(self.close)
