"""Waiting for the answers of one request, as they come or for all of them; the first failure ends all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from verispec.engine.completion import Chunk, Completion
from verispec.serving.engine_thread import Answer
from verispec.serving.openai.submission import cancel_all


async def all_results(answers: Sequence[Answer]) -> list[Completion]:
    """The completions in order. Raises the first failure, or when the task is cancelled; none goes on then."""
    waiting = [asyncio.ensure_future(answer.result()) for answer in answers]
    try:
        return list(await asyncio.gather(*waiting))
    finally:
        cancel_all(answers)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def rounds_of_all(answers: Sequence[Answer]) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    """(index, chunk) of every round as it comes, and (index, None) at the end of each answer.

    Raises the first failure. However it is left, no answer goes on after it.
    """
    try:
        if len(answers) == 1:
            async for chunk in answers[0]:
                yield 0, chunk
            yield 0, None
        else:
            async for entry in _interleaved(answers):
                yield entry
    finally:
        cancel_all(answers)


async def _interleaved(answers: Sequence[Answer]) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    arrived: asyncio.Queue[tuple[int, Chunk | Exception | None]] = asyncio.Queue(len(answers))

    async def forward(index: int, answer: Answer) -> None:
        try:
            async for chunk in answer:
                await arrived.put((index, chunk))
            await arrived.put((index, None))
        except Exception as error:  # raised where the others are waited for
            await arrived.put((index, error))

    forwarding = [asyncio.ensure_future(forward(index, answer)) for index, answer in enumerate(answers)]
    try:
        left = len(answers)
        while left:
            index, entry = await arrived.get()
            if isinstance(entry, Exception):
                raise entry
            left -= entry is None
            yield index, entry
    finally:
        for one in forwarding:
            one.cancel()
        await asyncio.gather(*forwarding, return_exceptions=True)
