"""How long a server's event loop is kept busy in one piece, in its own thread's processor time.

Other threads and other processes on a crowded machine do not count, so bounds on it can be tight.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

TICK = 0.002


@dataclass
class LoopTime:
    """Seconds of processor time: the longest piece between two turns of the loop, and all of them."""

    longest: float = 0.0
    total: float = 0.0


@contextmanager
def loop_time(loop: asyncio.AbstractEventLoop) -> Iterator[LoopTime]:
    """What ``loop``, which runs in another thread, uses until the block ends."""
    used = LoopTime()

    async def watch() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(TICK)
            now = time.thread_time()
            used.longest = max(used.longest, now - before)
            used.total += now - before
            before = now

    watching = asyncio.run_coroutine_threadsafe(watch(), loop)
    gc.disable()  # a test process holds so much that one collection on the loop's thread would be the longest piece
    try:
        yield used
    finally:
        gc.enable()
        watching.cancel()
