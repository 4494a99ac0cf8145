"""A long prompt arrives where six answers are being written, and a short one just behind it: who waits how long?"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.server_process import ServerProcess
from benchmarks.server_streams import Stream, crowd, stream

WRITERS = 6
"""With the long and the short prompt they fill eight slots."""
WRITTEN = 600
"""Tokens of a writer: enough to be still writing when the long prompt has its answer."""
LONG = 1500
"""Tokens of the long prompt."""
BEFORE_SECONDS = 1.5
BEHIND_SECONDS = 0.05
"""After the long prompt comes the short one."""


def measure_arrival(
    server: ServerProcess, prompts: Sequence[Sequence[int]], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Seconds: the first text of both newcomers, and between pieces of the writers' text before and meanwhile."""
    return asyncio.run(_arrival(server.port, prompts, more))


async def _arrival(port: int, prompts: Sequence[Sequence[int]], more: Mapping[str, Any]) -> dict[str, Any]:
    await crowd(port, prompts[:1], 1, 8, more)  # warm
    writing = [Stream() for _ in range(WRITERS)]
    tasks = [
        asyncio.ensure_future(stream(port, prompts[number % len(prompts)], WRITTEN, more, answer))
        for number, answer in enumerate(writing)
    ]
    try:
        while not all(len(answer.events) > 3 for answer in writing):
            await asyncio.sleep(0.01)
        await asyncio.sleep(BEFORE_SECONDS)
        long, short = Stream(), Stream()
        words = [token for prompt in prompts for token in prompt]
        arriving = [
            stream(port, (words * (LONG // len(words) + 1))[:LONG], 8, more, long),
            _late(stream(port, prompts[0], 8, more, short)),
        ]
        await asyncio.gather(*arriving)
        cut_short = [task.done() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    arrived, answered = long.sent, long.sent + long.first_text_seconds
    before = [gap for one in writing for gap in one.gaps(arrived - BEFORE_SECONDS, arrived)]
    meanwhile = [gap for one in writing for gap in one.gaps(arrived, answered)]
    return {
        "long_first_text_seconds": long.first_text_seconds,
        "short_first_text_seconds": short.first_text_seconds,
        "gap_before_seconds": _spread(before),
        "gap_meanwhile_seconds": _spread(meanwhile),
        "writers_that_ended_early": sum(cut_short),
    }


async def _late(answer: Any) -> None:
    await asyncio.sleep(BEHIND_SECONDS)
    await answer


def _spread(gaps: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(gaps), "max": max(gaps)} if gaps else {}
