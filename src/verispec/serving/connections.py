"""One client's connection, bounded: how many there are, how long a head may take and be, how long answers go unread.

uvicorn's protocol trusts that a client goes on sending and reading. Here each wait has an end, so that clients which
stall hold neither memory nor a place for long.
"""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from verispec.serving.error_response import error_bytes

MAX_HEAD = 64 << 10
"""Bytes of request line and headers."""
OTHER_FILES = 128
"""Open files kept for everything but connections."""
MAX_PIPELINED = 16
"""Requests that a client may send ahead of their answers."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds, and how many connections there may be."""

    connections: int
    header_timeout: float
    write_timeout: float


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with an end to every wait."""

    limits: ConnectionLimits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.access_log = False  # uvicorn's would hold query strings; see access_log.py
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = False
        if len(self.connections) > self.limits.connections:
            self.refuse(503, "too many connections are open; try again later", "too_many_connections", b"1")
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self.refuse(431, f"expected at most {MAX_HEAD} bytes of headers", "headers_too_large")

    def _await_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(self.limits.header_timeout, self._head_is_late)

    def _head_is_late(self) -> None:
        self.refuse(408, "the request's headers took too long", "request_timeout")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head_timer is None:  # a further request on this connection
            self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what follows a chunked body is of no use here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if len(self.pipeline) >= MAX_PIPELINED:
            self.transport.abort()
            return
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, msg, "invalid_http")

    def refuse(self, status: int, message: str, code: str, retry_after: bytes | None = None) -> None:
        """Answers before any request is there, and closes; an answer that is under way is cut off instead."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        body = error_bytes(status, message, code)
        lines = [
            STATUS_LINE[status],
            b"content-type: application/json\r\nconnection: close\r\n",
            b"content-length: %d\r\n" % len(body),
            b"retry-after: %s\r\n" % retry_after if retry_after else b"",
            b"\r\n",
            body,
        ]
        self.transport.write(b"".join(lines))
        self._close_soon()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None and not self.transport.is_closing():
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_soon()

    def timeout_keep_alive_handler(self) -> None:
        self._close_soon()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._close_soon()

    def _close_soon(self) -> None:
        """Closes once what was written is sent, and then at the latest when an answer may no longer go unread."""
        if self._head_timer is not None:
            self._head_timer.cancel()
        self.transport.close()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_timeout, self.transport.abort)

    def _cancel_timers(self) -> None:
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()


def bounded_protocol(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """The protocol class with these limits, as uvicorn's ``http`` option takes it."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})


def open_file_room(wanted: int) -> int:
    """``wanted`` connections, or as many as the process may have files open; its limit is raised where it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - OTHER_FILES))
