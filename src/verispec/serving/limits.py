"""How much a request may cost before any route sees it: its body's size and pace, and how many there are at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verispec.serving.error_response import send_error

DISCARDED_BYTES = 64 << 20
"""How much of a body that is too large is read and thrown away, so that its sender gets to see the refusal."""
BODIES_AT_ONCE = 64
"""Bodies of the greatest size that may be in memory while they arrive."""
ALWAYS_ANSWERED = frozenset({"/health", "/metrics"})
"""What a full server still answers: whoever watches it must see that it is full."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bytes of a body, seconds for it to arrive, requests handled at the same time."""

    body_bytes: int
    body_timeout: float
    requests: int


class _TooLargeError(Exception):
    pass


class _TooManyBytesError(Exception):
    pass


class _GoneError(Exception):
    """The client left while its body arrived."""


class RequestGate:
    """ASGI middleware: reads the body within its limits, then passes the request on with all of it at hand.

    413 for a body over the limit, 408 for one that takes too long, 503 for one request too many, and 503 for every
    POST while ``draining`` says that the server shuts down.
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits, draining: Callable[[], bool]) -> None:
        self.app = app
        self.limits = limits
        self.draining = draining
        self.active = 0
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS_ANSWERED:
            await self.app(scope, receive, send)
            return
        if scope["method"] == "POST" and self.draining():
            headers = {"retry-after": "5", "connection": "close"}
            await send_error(send, 503, "the server is shutting down", "shutting_down", headers)
            return
        if self.active >= self.limits.requests:
            await self._busy(send)
            return
        self.active += 1
        try:
            await self._admit(scope, receive, send)
        finally:
            self.active -= 1

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        expected, expects_answer = _declared(scope)
        if expected == 0:
            await self.app(scope, receive, send)
            return
        held = _Held(self)
        try:
            if expected is not None and expected > self.limits.body_bytes and expects_answer:
                raise _TooManyBytesError
            async with asyncio.timeout(self.limits.body_timeout):
                body = await self._read(receive, held)
        except _GoneError:
            return
        except TimeoutError:
            message = f"the body took longer than {self.limits.body_timeout:g} seconds"
            await send_error(send, 408, message, "request_timeout", {"connection": "close"})
            return
        except _TooLargeError:
            await self._too_large(send, {})
            return
        except _TooManyBytesError:
            await self._too_large(send, {"connection": "close"})
            return
        except _CrowdedError:
            await self._busy(send)
            return
        finally:
            held.release()
        await self.app(scope, _replayed(body, receive), send)

    async def _read(self, receive: Receive, held: _Held) -> bytes:
        """The whole body, or the error that ends it; of one that is too large, the rest is read for nothing."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            part = message.get("body", b"")
            size += len(part)
            if size <= self.limits.body_bytes:
                held.add(len(part))
                parts.append(part)
            elif size > max(DISCARDED_BYTES, self.limits.body_bytes):
                raise _TooManyBytesError
            else:
                parts.clear()
            if not message.get("more_body", False):
                break
        if size > self.limits.body_bytes:
            raise _TooLargeError
        return b"".join(parts)

    def reserve(self, count: int) -> None:
        """Accounts for bytes of a body that is arriving; refuses when all of them are too many."""
        if self._buffered + count > self.limits.body_bytes * BODIES_AT_ONCE:
            raise _CrowdedError
        self._buffered += count

    def give_back(self, count: int) -> None:
        self._buffered -= count

    async def _too_large(self, send: Send, headers: dict[str, str]) -> None:
        message = f"the body is too large: at most {self.limits.body_bytes} bytes"
        await send_error(send, 413, message, "request_too_large", headers)

    async def _busy(self, send: Send) -> None:
        headers = {"retry-after": "1", "connection": "close"}
        await send_error(
            send, 503, "the server has too many requests at once; try again later", "overloaded", headers
        )


class _CrowdedError(Exception):
    pass


class _Held:
    """The bytes that one arriving body has reserved."""

    def __init__(self, gate: RequestGate) -> None:
        self.gate = gate
        self.count = 0

    def add(self, count: int) -> None:
        self.gate.reserve(count)
        self.count += count

    def release(self) -> None:
        self.gate.give_back(self.count)
        self.count = 0


def _declared(scope: Scope) -> tuple[int | None, bool]:
    """The body's length as the head gives it (None: not known before), and whether the client waits to send it."""
    length: int | None = 0
    waits = False
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            length = None
        elif name == b"content-length" and length is not None:
            length = int(value) if value.isdigit() and len(value) < 19 else None
        elif name == b"expect":
            waits = True
    return length, waits


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message; after it, what the connection says (in the end, that it is gone)."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
