"""One line a request: number, method, path, status and time. No query, no key, no text of prompts or answers.

What goes wrong inside is answered with the request's number alone; the log has the place in the code under the same
number, and not the error's message, which could quote the request.
"""

from __future__ import annotations

import logging
import secrets
import time
import traceback
from collections.abc import Callable
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verispec.serving.error_response import send_error

ACCESS = logging.getLogger("verispec.access")
ERRORS = logging.getLogger("verispec.server")
CLIENT_LEFT = 499
"""Logged when a client left before its answer began."""
LOGGED_FRAMES = 12

Observer = Callable[[str, int], None]
"""Told the route and the status of every finished request."""


class AccessLog:
    """The outermost ASGI middleware: numbers requests, logs them, and ends those that raise."""

    def __init__(self, app: ASGIApp, observe: Observer) -> None:
        self.app = app
        self.observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        number = f"req_{secrets.token_hex(12)}"
        scope.setdefault("state", {})["request_id"] = number
        sent = _Sent(send, number)
        started = time.perf_counter()
        try:
            await self.app(scope, receive, sent)
        except Exception as error:
            log_failure(number, error)
            if sent.status is None:
                await send_error(
                    sent, 500, failure_message(number), "internal_error", {"connection": "close"}
                )
            elif not sent.complete:
                raise BrokenAnswerError(number) from None  # the server cuts the connection
        finally:
            status = sent.status or CLIENT_LEFT
            self.observe(route_name(scope), status)
            path = quote(scope["path"], safe="/:@-._~!$&'()*+,;=")
            milliseconds = 1000 * (time.perf_counter() - started)
            ACCESS.info("%s %s %s %d %.0f ms", number, scope["method"], path, status, milliseconds)


class BrokenAnswerError(Exception):
    """An answer that broke off after it had begun; carries the request's number alone."""


class _Sent:
    """``send`` that remembers the status and adds the request's number to the headers."""

    def __init__(self, send: Send, number: str) -> None:
        self.send = send
        self.number = number
        self.status: int | None = None
        self.complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {
                **message,
                "headers": [*message.get("headers", ()), (b"x-request-id", self.number.encode())],
            }
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        await self.send(message)


def log_failure(number: str, error: BaseException) -> None:
    """Writes down where ``error`` arose."""
    places = "".join(traceback.format_tb(error.__traceback__)[-LOGGED_FRAMES:])
    ERRORS.error("%s failed: %s at\n%s", number, type(error).__qualname__, places)


def failure_message(number: str) -> str:
    return f"the server failed on this request; its log has the place under {number}"


def route_name(scope: Scope) -> str:
    """The route's pattern, so that paths with names in them count together; ``other`` for a path that is none."""
    return str(getattr(scope.get("route"), "path", "other"))
