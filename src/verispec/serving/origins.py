"""Which web pages may call the server: by default only its own, whatever name the page gave the server's address.

A browser sends a page's simple requests to any address, a server on the visitor's own machine included. So requests
that come from a foreign page are refused, and a loopback server without keys answers only to loopback names, which
no page can make point elsewhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from verispec.serving.error_response import send_error


class OriginGuard:
    """ASGI middleware. ``origins`` are allowed beside the server's own; ``hosts`` None lets any name pass."""

    def __init__(self, app: ASGIApp, origins: Collection[str], hosts: Collection[str] | None) -> None:
        self.app = app
        self.origins = frozenset(origins)
        self.hosts = None if hosts is None else frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            host, origin = headers.get(b"host", ""), headers.get(b"origin")
            if self.hosts is not None and not self._is_own_name(host):
                message = f"this server does not answer to the name {host!r}; --allow-host adds one"
                await send_error(send, 403, message, "host_not_allowed")
                return
            if origin is not None and not self._allows(origin, host):
                message = f"pages of {origin!r} may not call this server; --allow-origin lets them"
                await send_error(send, 403, message, "origin_not_allowed")
                return
        await self.app(scope, receive, send)

    def _allows(self, origin: str, host: str) -> bool:
        own = origin in (f"http://{host}", f"https://{host}")
        return own or origin in self.origins or "*" in self.origins

    def _is_own_name(self, host: str) -> bool:
        name = host_name(host)
        assert self.hosts is not None
        return is_loopback(name) or name in self.hosts


def host_name(host: str) -> str:
    """A ``Host`` header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_loopback(name: str) -> bool:
    """Whether a host's name or address means this machine and nothing else."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
