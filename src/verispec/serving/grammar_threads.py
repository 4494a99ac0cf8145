"""Threads for grammars alone: what a client gives to be compiled may take long, and then only other grammars wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from verispec.errors import VerispecError

THREADS = 2
PATIENCE_SECONDS = 30.0
"""For one piece of work, its wait for a thread included."""

Result = TypeVar("Result")


class GrammarsBusyError(VerispecError):
    """A grammar whose turn did not come, or was not over, within ``PATIENCE_SECONDS``."""


class GrammarThreads:
    """Two threads, which start at first use. For one event loop."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self.asked = 0
        """Pieces of work that somebody waits for."""
        self._threads = ThreadPoolExecutor(THREADS, "verispec-grammar")

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """The result of ``work``. Raises GrammarsBusyError. Cancelled before its turn, it is never begun."""
        working = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        self.asked += 1
        try:
            async with asyncio.timeout(self._patience) as limit:
                return await working
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"grammar: expected it ready within {self._patience:g} s, found others before it"
            raise GrammarsBusyError(message) from None
        finally:
            self.asked -= 1
