"""From ready to gone: a first signal lets what runs come to an end, a second one ends it at once."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from uvicorn import Config, Server

LAST_WRITES = 5.0
"""Seconds for cancelled answers to reach their clients before connections are cut."""


class Lifecycle:
    """Whether the server takes requests, and since when it runs."""

    def __init__(self) -> None:
        self.draining = False
        self._started = time.monotonic()

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def is_draining(self) -> bool:
        return self.draining


class Engine(Protocol):
    """What answers the requests: one engine, or several behind this server."""

    def start(self) -> None:
        """Begins to serve, for the running event loop."""

    async def drain(self, seconds: float) -> None:
        """Takes no new requests, lets those there finish for up to ``seconds``, ends the rest, and stops."""


class DrainingServer(Server):
    """uvicorn's server, which on SIGTERM or SIGINT first refuses new requests and lets running ones finish.

    ``drain`` seconds later what still runs is cancelled. While it drains the server answers: new requests get a 503
    and ``/health`` says so.
    """

    def __init__(
        self,
        config: Config,
        engine: Engine,
        lifecycle: Lifecycle,
        drain: float,
        ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.config.timeout_graceful_shutdown = int(LAST_WRITES)
        self._engine = engine
        self._lifecycle = lifecycle
        self._drain = drain
        self._ready = ready
        self._draining: asyncio.Task[None] | None = None
        self.failed = False
        """Whether the engine is what has ended it."""

    async def serve(self, sockets: list[Any] | None = None) -> None:
        """Starts the engine, serves until a signal, and ends the engine."""
        self._loop = asyncio.get_running_loop()
        self._engine.start()
        try:
            await super().serve(sockets)
        finally:
            await self._engine.drain(0)

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def fail(self) -> None:
        """Ends the server since its engine is gone: requests that are there get their answers, which are errors."""
        self.failed = self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The signal handler; it does not keep the signal, so that a drained server exits with status 0."""
        if self._lifecycle.draining:
            sys.stdout.flush()
            os._exit(128 + sig)
        self._lifecycle.draining = True
        self._loop.call_soon_threadsafe(self._begin_drain)

    def _begin_drain(self) -> None:
        self._draining = self._loop.create_task(self._finish())

    async def _finish(self) -> None:
        try:
            await self._engine.drain(self._drain)
        finally:
            self.should_exit = True
