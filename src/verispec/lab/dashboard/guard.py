"""What every request passes: it must be meant for this page, and its answer lets a browser do nothing but show it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verispec.serving.origins import host_name, is_loopback
from verispec.serving.security_headers import HEADERS

POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""No script at all: what came from logs and servers could run nothing even if it were not escaped."""


class DashboardGuard:
    """ASGI middleware. A dashboard on loopback answers only to loopback names and ``hosts``; ``hosts`` None: to any.

    Pages of other origins are refused: a name that they point at this machine could otherwise read the ledger.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self.app = app
        self.hosts = None if hosts is None else frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {**HEADERS, "content-security-policy": POLICY}.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope["headers"])
        answer = self.app if refusal is None else PlainTextResponse(refusal, 403)
        await answer(scope, receive, with_headers)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        given = {name: value.decode("latin-1") for name, value in headers}
        host, origin = given.get(b"host", ""), given.get(b"origin")
        if self.hosts is not None and not self._is_own_name(host_name(host)):
            return f"the dashboard does not answer to the name {host!r}; --allow-host adds one"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return f"pages of {origin!r} may not read the dashboard"
        return None

    def _is_own_name(self, name: str) -> bool:
        assert self.hosts is not None
        return is_loopback(name) or name in self.hosts
