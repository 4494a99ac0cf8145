"""Answers on their way to the client: one JSON object, an error, or a stream that may still end in one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from verispec.serving.openai.connection import while_connected
from verispec.serving.openai.errors import RequestError
from verispec.serving.openai.events import event, write_json

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # proxies must not hold events back
}
Explain = Callable[[Exception], RequestError]


def json_response(body: bytes) -> Response:
    """``body`` is a JSON object."""
    return Response(body, media_type="application/json")


def error_response(error: RequestError) -> Response:
    content = write_json(error.body()).encode()
    return Response(content, error.status, error.headers, "application/json")


class EventStream(Response):
    """A stream of events.

    It begins with the first event, so that what fails before it is answered with a status; what fails later ends the
    stream with an error event. The client's leaving ends the work at once, also before the first event.
    """

    def __init__(self, events: AsyncGenerator[bytes, None], explain: Explain) -> None:
        """``explain`` says what to answer when the work failed."""
        super().__init__(None, headers=STREAM_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._explain = explain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(receive, self._send(scope, receive, send))

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events) as events:
            begun = False
            while True:
                try:
                    part = await anext(events, b"")
                except Exception as error:
                    refusal = self._explain(error)
                    if not begun:
                        await error_response(refusal)(scope, receive, send)
                        return
                    await send(_body(event(refusal.body()), True))
                    part = b""
                if not begun:
                    begun = True
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send(_body(part, bool(part)))
                if not part:
                    return


def _body(content: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}
