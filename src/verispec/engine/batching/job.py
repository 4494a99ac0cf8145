"""One request among many: from waiting to its end."""

from __future__ import annotations

import time
from collections.abc import Sequence

from verispec.drafting.options import DRAFT_MODEL
from verispec.engine.completion import Chunk, Clock, Completion, describe
from verispec.engine.prefix_cache import Path
from verispec.engine.request import Emitted, Request
from verispec.engine.request_options import PreparedRequest
from verispec.errors import DeadlineError, RequestCancelledError

Event = Chunk | Completion | Exception
"""What becomes of a job: chunks, then the completion or the error that ended it."""


class Job:
    """A prepared request and where it stands. The scheduler's thread uses it; ``cancel`` and ``end_with`` anyone may.

    ``identity`` is whose prefixes it may share. ``deadline`` is in seconds from ``started``, a reading of
    ``time.perf_counter`` (None: now).
    """

    def __init__(
        self,
        prepared: PreparedRequest,
        *,
        identity: str = "",
        deadline: float | None = None,
        cache_prompt: bool = True,
        started: float | None = None,
    ) -> None:
        self.prepared = prepared
        self.identity = identity
        # a prompt that is to be scored needs a pass over every row of it
        self.cache_prompt = cache_prompt and prepared.options.prompt_logprobs is None
        self.clock = Clock() if started is None else Clock(started)
        self.deadline = deadline
        self.request: Request | None = None
        self.prefix: Path | None = None
        """How far its committed tokens are in the prefix cache; None where none of them are to be."""
        self.ended: Exception | None = None
        """What ended it before its time."""
        self._cancelled = False
        self._delivered = 0

    def cancel(self) -> None:
        """Ends the job before its next pass; harmless behind its end."""
        self._cancelled = True
        if self.request is not None:
            self.request.cancelled = True

    def end_with(self, error: Exception) -> None:
        """Ends the job before its next pass with ``error``, unless another has ended it already."""
        self.ended = self.ended or error

    def begin(self, request: Request) -> None:
        self.request = request
        request.cancelled = self._cancelled  # a cancel may have come between the two
        self.clock.begun = time.perf_counter()

    @property
    def prefix_identity(self) -> str:
        """Whose prefixes it may share: a drafter with entries of its own beside the target's goes on only from prefixes
        that were evaluated with one."""
        resolution = self.prepared.options.resolution
        if not resolution.strategy.keeps_entries:
            return self.identity
        artifact = resolution.settings.get(DRAFT_MODEL.name) or ""
        return f"{self.identity}\0{resolution.strategy.name}\0{artifact}"

    @property
    def reading(self) -> bool:
        """Whether more of the prompt is left to evaluate than its last token."""
        request = self.request
        return request is not None and len(request.tokens) - request.target.length > 1

    def over(self, now: float) -> bool:
        """Whether it gets no further pass; ``now`` by ``time.perf_counter``."""
        if self.deadline is not None and now - self.clock.started > self.deadline and not self._finished:
            self.end_with(
                DeadlineError(
                    f"deadline: expected the answer within {self.deadline:g} s, found it unfinished"
                )
            )
        return self.ended is not None or self._cancelled or self._finished

    @property
    def _finished(self) -> bool:
        return self.request is not None and self.request.over

    def new_emissions(self) -> Sequence[Emitted]:
        """What has been emitted since this was last asked."""
        if self.request is None or self._delivered == len(self.request.emissions):
            return ()
        self.clock.emitted()
        new = self.request.emissions[self._delivered :]
        self._delivered += len(new)
        return new

    def outcome(self) -> Completion | Exception:
        """What it ended with. One that was cancelled before it began has no completion."""
        if self.ended is not None:
            return self.ended
        if self.request is None:
            return RequestCancelledError("request: cancelled before it began")
        return describe(self.request, self.clock, self.prepared.options)
