"""Who may call what: every path needs a key when the server has any, but for the page and the sign of life."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from verispec.serving.error_response import send_error
from verispec.serving.keys import ANONYMOUS, KeyRing

CHALLENGE = {"www-authenticate": "Bearer"}


class Authentication:
    """ASGI middleware: puts the caller's ``identity`` into the request's state; 401 for strangers.

    A stranger gets through to the ``open_paths``, as ``anonymous`` and with ``trusted`` False.
    """

    def __init__(self, app: ASGIApp, keys: KeyRing, open_paths: Collection[str]) -> None:
        self.app = app
        self.keys = keys
        self.open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
            identity = self.keys.identify(None if header is None else header.decode("latin-1"))
            if identity is None and scope["path"] not in self.open_paths:
                message = (
                    "no API key given; send Authorization: Bearer KEY"
                    if header is None
                    else "this API key is not valid"
                )
                await send_error(send, 401, message, "invalid_api_key", CHALLENGE)
                return
            state = scope.setdefault("state", {})
            state["identity"] = identity or ANONYMOUS
            state["trusted"] = identity is not None
        await self.app(scope, receive, send)
