"""The protocol's routes around a real engine, served on a local port by a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from openai import OpenAI
from starlette.types import ASGIApp, Receive, Scope, Send

from verispec.engine.batching.scheduler import SchedulerLimits
from verispec.engine.model import Model
from verispec.evidence.receipt import Receipt
from verispec.serving.engine_thread import EngineThread
from verispec.serving.openai.routes import openai_routes
from verispec.serving.state import RequestBounds, ServerState

MODEL = "smollm2"
ALIAS = "gpt-4o-mini"
PATIENCE = 240.0
"""Seconds that anything may take on a crowded machine before a test gives it up."""
QUESTION = [{"role": "user", "content": "Name three colours."}]


class KeptReceipts(dict[str, tuple[str, Receipt]]):
    """A receipt store that a test can look into."""

    def put(self, receipt_id: str, identity: str, receipt: Receipt) -> None:
        self[receipt_id] = (identity, receipt)


class Named:
    """Gives every request a number and, from the header ``caller``, an identity."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller = dict(scope["headers"]).get(b"caller", b"anonymous").decode()
            scope.setdefault("state", {}).update(identity=caller, request_id="req_of_test")
        await self.app(scope, receive, send)


@dataclass
class ProtocolServer:
    """``engine`` belongs to the server's thread; its statistics may be read from anywhere."""

    engine: EngineThread
    port: int
    loop: asyncio.AbstractEventLoop
    receipts: KeptReceipts = field(default_factory=KeptReceipts)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def client(self) -> OpenAI:
        """The official client, which must not try again what was refused."""
        return OpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=PATIENCE)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """A request as it stands; bytes are sent as they are."""
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        return httpx.post(
            f"{self.url}{path}",
            headers={"content-type": "application/json", **headers},
            timeout=60,
            **content,
        )

    def chat(self, **parameters: Any) -> httpx.Response:
        return self.post("/chat/completions", {"model": MODEL, "messages": QUESTION, **parameters})

    def complete(self, **parameters: Any) -> httpx.Response:
        return self.post("/completions", {"model": MODEL, "prompt": "The capital of France is", **parameters})

    def settle(self) -> None:
        """Waits until the engine has nothing to do."""
        until = time.monotonic() + PATIENCE
        while self.engine.statistics.running or self.engine.statistics.waiting:
            assert time.monotonic() < until, "the engine still runs something"
            time.sleep(0.01)


@contextmanager
def protocol_server(
    model: Model, limits: SchedulerLimits | None = None, bounds: RequestBounds | None = None, **state: Any
) -> Iterator[ProtocolServer]:
    """A server on a free port. ``state`` are further fields of ``ServerState``."""
    engine = EngineThread(model, limits or SchedulerLimits(parallel=4))
    receipts = KeptReceipts()
    shared = ServerState(
        engine, MODEL, receipts, 0, frozenset({ALIAS}), bounds or RequestBounds(deadline=PATIENCE), **state
    )
    app = FastAPI()
    app.include_router(openai_routes(shared))
    server = uvicorn.Server(uvicorn.Config(Named(app), port=0, log_level="error", lifespan="off"))
    started: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        engine.start()
        started.append(asyncio.get_running_loop())
        await server.serve()
        await engine.drain(0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield ProtocolServer(engine, port, started[0], receipts)
    finally:
        server.should_exit = True
        thread.join(30)
