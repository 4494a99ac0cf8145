"""One request and its answer: waited for as a whole or streamed, for as long as the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from verispec.engine.completion import Completion
from verispec.serving.engine_thread import Answer
from verispec.serving.openai.events import DONE
from verispec.serving.openai.finish import finish_reason
from verispec.serving.openai.results import all_results, rounds_of_all
from verispec.serving.openai.shape import Finished, Shape
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.state import ServerState


@dataclass(frozen=True, slots=True)
class Exchange:
    """``caller`` is who made the request, ``answer_id`` the id that all parts of the answer carry."""

    state: ServerState
    request: SharedParameters
    shape: Shape
    caller: str
    answer_id: str

    async def whole(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """The answer as one object."""
        completions = await all_results(answers)
        return self.shape.whole([await self._finished(i, one) for i, one in enumerate(completions)])

    async def stream(self, answers: Sequence[Answer]) -> AsyncGenerator[bytes, None]:
        """The answer as events, from the first round on. Raises what ends it early."""
        finished: dict[int, Finished] = {}
        opened: set[int] = set()
        async with aclosing(rounds_of_all(answers)) as rounds:
            async for index, chunk in rounds:
                opening = b""
                if index not in opened:
                    opened.add(index)
                    opening = self.shape.opening(index)
                if chunk is not None:
                    event = self.shape.chunk(index, chunk)
                else:
                    completion = answers[index].completion
                    assert completion is not None
                    finished[index] = await self._finished(index, completion)
                    event = self.shape.ending(index, finished[index])
                if opening or event:
                    yield opening + event
        yield self.shape.last([finished[index] for index in range(len(answers))]) + DONE

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
