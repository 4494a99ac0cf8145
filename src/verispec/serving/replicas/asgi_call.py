"""One request to an ASGI application without a connection: its answer as an asynchronous iterator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.types import ASGIApp
from starlette.types import Message as AsgiMessage

from verispec.serving.access_log import BrokenAnswerError, log_failure, route_name
from verispec.serving.replicas.messages import ForwardedRequest, Part, Start


async def call(app: ASGIApp, request: ForwardedRequest) -> AsyncGenerator[Start | Part, None]:
    """The answer of ``app``, parts that wait together joined. To close it, or to cancel its task, is to hang up.

    Raises BrokenAnswerError when the application failed before its answer was complete.
    """
    sent: asyncio.Queue[AsgiMessage | None] = asyncio.Queue()
    scope = request.scope()
    working = asyncio.ensure_future(_run(app, scope, request, sent))
    try:
        more, over = True, False
        while not over:
            content = b""
            for message in [await sent.get(), *_waiting(sent)]:
                if message is None:
                    over = True
                elif message["type"] == "http.response.start":
                    headers = tuple((bytes(name), bytes(value)) for name, value in message["headers"])
                    yield Start(message["status"], headers, route_name(scope))
                else:
                    content += message.get("body", b"")
                    more = message.get("more_body", False)
            if content:
                yield Part(content)
        if more:
            raise BrokenAnswerError(request.state["request_id"])
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _run(
    app: ASGIApp, scope: dict[str, Any], request: ForwardedRequest, sent: asyncio.Queue[AsgiMessage | None]
) -> None:
    body: list[AsgiMessage] = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> AsgiMessage:
        if body:
            return body.pop()
        await asyncio.Event().wait()  # who hangs up cancels this task
        raise AssertionError

    async def send(message: AsgiMessage) -> None:
        sent.put_nowait(message)

    try:
        await app(scope, receive, send)
    except Exception as error:
        log_failure(request.state["request_id"], error)
    finally:
        sent.put_nowait(None)


def _waiting(sent: asyncio.Queue[AsgiMessage | None]) -> list[AsgiMessage | None]:
    return [sent.get_nowait() for _ in range(sent.qsize())]
