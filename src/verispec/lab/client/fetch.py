"""Reading a page of a server that is being measured: plain, without retries, redirects or proxies."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit


def fetch(url: str, seconds: float) -> str | None:
    """The text of an answer with status 200; None for anything else, and when nothing answers in time."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        response = connection.getresponse()
        content = response.read()
        return content.decode(errors="replace") if response.status == 200 else None
    except (OSError, http.client.HTTPException):  # not listening, not ready, or gone
        return None
    finally:
        connection.close()
