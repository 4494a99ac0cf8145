"""A conversation that keeps the target's state of everything said so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from verispec.backends.contract import BackendAdapter
from verispec.engine.generation import Generation
from verispec.engine.model_lock import ModelLock
from verispec.engine.request import Request
from verispec.engine.request_options import PreparedRequest
from verispec.errors import OptionError


class Conversation:
    """Messages so far and the sequence that holds their state. One answer at a time.

    Only the part of the next prompt that the sequence does not hold is evaluated. By row invariance the answer is the
    one a fresh sequence would give.
    """

    def __init__(
        self,
        backend: BackendAdapter,
        lock: ModelLock,
        start: Callable[[Sequence[dict[str, str]], Conversation, dict[str, Any]], Generation],
        drafter_resumes: Callable[[PreparedRequest, int, int], bool],
    ) -> None:
        """``start`` opens a generation on this conversation's sequence; ``lock`` guards ``backend``.

        ``drafter_resumes(prepared, sequence, length)``: whether the request's drafter can go on behind a prefix.
        """
        self.messages: list[dict[str, str]] = []
        self._backend = backend
        self._lock = lock
        self._start = start
        self._drafter_resumes = drafter_resumes
        self._sequence: int | None = None
        self._evaluated: list[int] = []
        self._answer: Request | None = None
        self._closed = False
        self._replays = 0

    def send(self, text: str, role: str = "user", **options: Any) -> Generation:
        """Adds a message and streams the answer, which joins the conversation when it is over, however it ends."""
        messages = [*self.messages, {"role": role, "content": text}]
        generation = self._start(messages, self, options)
        self.messages = messages
        return generation

    def reuse(self, prepared: PreparedRequest) -> int:
        """The conversation's sequence, cut to the longest prefix of the prompt it can keep. For the model alone.

        A recurrent target keeps the states behind few lengths, and a drafter with entries of its own beside the
        target's can only go on where the last answer left them: elsewhere the prompt is evaluated again.
        """
        if self._answer is not None:
            raise OptionError(
                "conversation: expected the last answer to be finished or closed, found it running"
            )
        backend = self._backend
        if self._sequence is None:
            self._sequence = backend.open_sequence()
        shared = self._replays = 0
        for held, wanted in zip(self._evaluated, prepared.prompt[:-1], strict=False):
            if held != wanted:
                break
            shared += 1
        if not self._can_go_on(prepared, shared):
            self._replays = int(shared > 0)
            shared = 0
        del self._evaluated[shared:]
        backend.commit(self._sequence, shared)
        return self._sequence

    def _can_go_on(self, prepared: PreparedRequest, length: int) -> bool:
        assert self._sequence is not None
        if not length or not self._backend.holds(self._sequence, length):
            return False
        return self._drafter_resumes(prepared, self._sequence, length)

    def begin(self, request: Request) -> None:
        """Leaves the sequence to an answer until ``keep``. For the model alone."""
        request.counters.replays = self._replays
        self._answer = request
        self._closed = False

    def keep(self, request: Request) -> None:
        """Takes in an answer that is over, and note of what the sequence holds after it. For the model alone."""
        if self._answer is not request:
            return
        self._evaluated = request.tokens[: request.target.length]
        answer = {"role": "assistant", "content": "".join(emitted.text for emitted in request.emissions)}
        self.messages, self._answer = [*self.messages, answer], None
        if self._closed:
            self.close()

    def close(self) -> None:
        """Gives the sequence back, once an answer still running is over or closed.

        The backend has a few, and an open conversation holds one.
        """
        with self._lock:
            self._closed = True
            if self._answer is None and self._sequence is not None:
                sequence, self._sequence, self._evaluated = self._sequence, None, []
                self._backend.close_sequence(sequence)

    def __del__(self) -> None:
        self._lock.finalise(self.close)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
