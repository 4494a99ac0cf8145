"""One request and its answer: waited for as a whole or streamed, for as long as the client is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from verispec.engine.completion import Completion
from verispec.engine.sampler import Sampled
from verispec.errors import DeadlineError
from verispec.serving.engine_thread import Answer
from verispec.serving.openai.events import DONE
from verispec.serving.openai.finish import finish_reason
from verispec.serving.openai.plan import Plan
from verispec.serving.openai.prompts import in_time
from verispec.serving.openai.results import all_results, rounds_of_all
from verispec.serving.openai.shape import Finished, Shape
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.openai.submission import submit_all
from verispec.serving.state import ServerState


@dataclass(frozen=True, slots=True)
class Exchange:
    """``plan`` says what to ask of the engine, ``caller`` is who made the request, ``answer_id`` the id that all parts
    of the answer carry, ``arrived`` when the request was there, by ``time.perf_counter``.

    Cancelling the task, or closing the stream, ends the work at whatever stage it is.
    """

    state: ServerState
    request: SharedParameters
    plan: Callable[[], Awaitable[Plan]]
    caller: str
    answer_id: str
    arrived: float

    async def whole(self) -> bytes:
        """The answer as one JSON object."""
        shape, answers = await self._begin()
        completions = await all_results(answers)
        finished = [await self._finished(index, one) for index, one in enumerate(completions)]
        return await in_time(_size(completions), lambda: shape.whole(finished).encode())

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The answer as events, from the first round on. Raises what ends it early."""
        shape, answers = await self._begin()
        finished: dict[int, Finished] = {}
        opened: set[int] = set()
        async with aclosing(rounds_of_all(answers)) as rounds:
            async for index, chunk in rounds:
                opening = b""
                if index not in opened:
                    opened.add(index)
                    opening = shape.opening(index)
                if chunk is not None:
                    event = shape.chunk(index, chunk)
                else:
                    completion = answers[index].completion
                    assert completion is not None
                    finished[index] = await self._finished(index, completion)
                    event = shape.ending(index, finished[index])
                if opening or event:
                    yield opening + event
        yield shape.last([finished[index] for index in range(len(answers))]) + DONE

    async def _begin(self) -> tuple[Shape, Sequence[Answer]]:
        """The answers, queued. Raises DeadlineError when that took as long as the answers may."""
        deadline = self.state.bounds.deadline_of(self.request.deadline)
        try:
            async with asyncio.timeout(deadline - (time.perf_counter() - self.arrived)) as limit:
                plan = await self.plan()
                answers = await submit_all(
                    self.state, plan.submissions, self.request, self.caller, self.arrived
                )
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"deadline: expected the answer within {deadline:g} s, found it not begun"
            raise DeadlineError(message) from None
        return plan.shape, answers

    async def _finished(self, index: int, completion: Completion) -> Finished:
        """One choice, its receipt left where its caller finds it."""
        finish_reason(completion)  # raises for an answer that a shutdown ended: that one has no receipt
        if not self.request.receipt:
            return Finished(completion)
        fields = await asyncio.to_thread(self._leave_receipt, f"{self.answer_id}-{index}", completion)
        return Finished(completion, fields)

    def _leave_receipt(self, receipt_id: str, completion: Completion) -> dict[str, str]:
        receipt = self.state.engine.model.receipt(completion, self.request.receipt == "include-text")
        self.state.receipts.put(receipt_id, self.caller, receipt)
        return {"id": receipt_id, "url": f"/v1/receipts/{receipt_id}", "sha256": receipt.sha256}


def _size(completions: Sequence[Completion]) -> int:
    """How much there is to write: tokens, and what is shown beside each."""
    return sum(
        len(one.tokens) + len(one.prompt_tokens) + _shown(one.logprobs) + _shown(one.prompt_logprobs)
        for one in completions
    )


def _shown(logprobs: Sequence[Sampled] | None) -> int:
    return len(logprobs) * (1 + len(logprobs[-1].alternatives)) if logprobs else 0
