"""One replica: an engine, its prefix cache and its routes, in a process that Ray Serve keeps alive."""

from __future__ import annotations

import dataclasses
import os
import platform
import secrets
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric

from verispec.errors import BackendError, VerispecError
from verispec.serving.announcement import model_lines
from verispec.serving.app import create_routes
from verispec.serving.metrics import EngineCollector, Metrics
from verispec.serving.replicas.asgi_call import call
from verispec.serving.replicas.messages import Accepted, ForwardedRequest, Message
from verispec.serving.settings import ServerSettings
from verispec.serving.start import assemble, load_model, log_to_standard_error

RETRY_SECONDS = 60.0
"""After which a replica that could not start is started again: what it lacked may have come."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of life. ``incarnation`` is new in every process: a replica that has another one has an empty cache.

    ``failure`` says why this one serves nothing.
    """

    incarnation: str
    pid: int
    node: str
    failure: str | None = None


class Replica:
    """What the front asks of a replica. Everything is called on one event loop, that of the replica's process."""

    async def __init__(self, settings: ServerSettings, created: int) -> None:  # type: ignore[misc]  # Serve awaits it
        """Loads the model and serves it; what prevents that is kept for ``sign``, so that the front can say it."""
        log_to_standard_error()
        self._started = time.monotonic()
        self._sign = Sign(secrets.token_hex(8), os.getpid(), platform.node())
        try:
            model = load_model(settings)
            model.pass_costs()  # measured now, so that the first request does not wait for it
            self._health, self._receipts = assemble(settings, model, created)
        except (VerispecError, OSError) as error:
            self._sign = dataclasses.replace(self._sign, failure=str(error))
            return
        self._engine = self._health.state.engine
        self._collector = EngineCollector(self._engine)
        self._app = create_routes(self._health, self._receipts, Metrics(self._collector))
        self._lines = model_lines(settings, model)
        self._engine.start()

    def check_health(self) -> None:
        """Asked by Ray Serve every few seconds; raising has the replica restarted."""
        if self._sign.failure is not None:
            if time.monotonic() - self._started > RETRY_SECONDS:
                raise BackendError(self._sign.failure)
        elif not self._engine.alive and not self._health.lifecycle.draining:
            raise BackendError("the engine has stopped")

    async def sign(self) -> Sign:
        return self._sign

    async def lines(self) -> list[str]:
        """What the announcement says of the model."""
        return self._lines

    async def report(self) -> dict[str, Any]:
        """As ``/health`` shows it of one server."""
        return self._health.report()

    async def metrics(self) -> list[Metric]:
        """The engine's metric families."""
        return list(self._collector.collect())

    async def receipt(self, receipt_id: str, identity: str) -> bytes | None:
        """A receipt made here by ``identity``."""
        return self._receipts.get(receipt_id, identity)

    async def answer(self, request: ForwardedRequest) -> AsyncGenerator[Message, None]:
        """The answer to ``request``; closing the iterator, or cancelling it, ends the request in the engine."""
        yield Accepted()
        async for message in call(self._app, request):
            yield message

    async def drain(self, seconds: float) -> None:
        """Ends as a server does: what runs may finish for ``seconds``, the rest is told that the server shuts down."""
        if self._sign.failure is None:
            self._health.lifecycle.draining = True
            await self._engine.drain(seconds)
