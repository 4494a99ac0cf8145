"""What goes between front and replica: a request without its connection, and its answer in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """A request as ASGI has it, with all of its body. ``state`` says who calls, and the request's number."""

    method: str
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    state: dict[str, Any]
    body: bytes

    def scope(self) -> dict[str, Any]:
        """The ASGI scope that a replica's routes see."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
            "root_path": "",
            "headers": list(self.headers),
            "client": None,
            "server": None,
            "state": dict(self.state),
        }


@dataclass(frozen=True, slots=True)
class Accepted:
    """The replica has the request: from here on it is lost with the replica."""


@dataclass(frozen=True, slots=True)
class Start:
    """``route`` is the pattern of the route that answers, for the metrics."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    route: str


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of the body; the answer's end is the end of the parts."""

    content: bytes


Message = Accepted | Start | Part
