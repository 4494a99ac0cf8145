"""Reading a page of a server that is being measured: plain, without retries, redirects or proxies."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

LONGEST_PAGE = 16 << 20
"""Bytes of a page at most: a report or metrics, never more."""


def fetch(url: str, seconds: float) -> str | None:
    """The text of an answer with status 200; None for anything else, for one of more than ``LONGEST_PAGE`` bytes, and
    when it is not over in ``seconds``, however slowly it comes."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.connect()
        with _ended_after(seconds, connection.sock) as late:
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            response = connection.getresponse()
            content = response.read(LONGEST_PAGE + 1)
            whole = response.status == 200 and len(content) <= LONGEST_PAGE and not late.is_set()
        return content.decode(errors="replace") if whole else None
    except (OSError, http.client.HTTPException):  # not listening, not ready, or gone
        return None
    finally:
        connection.close()


@contextlib.contextmanager
def _ended_after(seconds: float, connected: socket.socket) -> Iterator[threading.Event]:
    """Ends the connection after so long, whatever is being read; the event says that it was."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with contextlib.suppress(OSError):  # it is closed already
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
