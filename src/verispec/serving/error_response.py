"""Errors that arise outside the routes, in the shape of the OpenAI protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.types import Send

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def error_body(status: int, message: str, code: str, param: str | None = None) -> dict[str, Any]:
    """The JSON object of an error."""
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_bytes(status: int, message: str, code: str) -> bytes:
    """The same as UTF-8 JSON."""
    return json.dumps(error_body(status, message, code)).encode()


async def send_error(
    send: Send, status: int, message: str, code: str, headers: Mapping[str, str] | None = None
) -> None:
    """Answers an ASGI request with an error. ``headers`` are added, such as ``Retry-After``."""
    body = error_bytes(status, message, code)
    shown = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    start = [(name.lower().encode(), value.encode()) for name, value in shown.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
