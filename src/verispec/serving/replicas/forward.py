"""A request's way to a replica and its answer's way back, as an ASGI application."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send

from verispec.serving.access_log import BrokenAnswerError
from verispec.serving.error_response import error_body, send_error
from verispec.serving.openai.body import read_object
from verispec.serving.openai.connection import while_connected
from verispec.serving.openai.errors import RequestError
from verispec.serving.openai.events import event
from verispec.serving.openai.prompts import in_time
from verispec.serving.replicas.fleet import Fleet, NoReplicaError
from verispec.serving.replicas.member import Member, ReplicaLostError
from verispec.serving.replicas.messages import Accepted, ForwardedRequest, Message, Start
from verispec.serving.replicas.prefix_key import Wanted, wanted

ACCEPT_SECONDS = 15.0
"""For a replica to take a request; one that does not is gone, and nobody has said so yet."""
GENERATING = frozenset({"/v1/chat/completions", "/v1/completions"})
KEPT_HEADERS = frozenset({b"content-type", b"accept"})
"""What the routes read; keys and cookies stay here."""
LOST = "the replica that wrote this answer is lost; the same request gives the same answer elsewhere"


@dataclass(frozen=True)
class Route:
    """Stands in the scope for the route that answered in the replica, whose pattern counts in the metrics."""

    path: str


class Forward:
    """Gives each request to one replica.

    One that dies before it has taken the request is replaced by another; one that dies later ends the request with an
    error: what killed it might have been the request. A client that leaves is hung up on in the replica.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = ForwardedRequest(
            scope["method"],
            scope["path"],
            scope["query_string"],
            tuple((name, value) for name, value in scope["headers"] if name in KEPT_HEADERS),
            dict(scope["state"]),
            await _body(receive),
        )
        wants = await in_time(len(request.body), _wanted, request)
        await while_connected(receive, self._forward(request, wants, _Answer(scope, send)))

    async def _forward(self, request: ForwardedRequest, wants: Wanted, answer: _Answer) -> None:
        tried: set[int] = set()
        while True:
            try:
                member = self._fleet.choose(wants, tried)
            except NoReplicaError as error:
                await answer.refuse(str(error), "no_replica")
                return
            tried.add(member.number)
            try:
                await _relay(member, request, answer)
                return
            except ReplicaLostError as error:
                self._fleet.lose(member, f"lost: {error}")
                if answer.accepted:
                    await answer.refuse(LOST, "replica_lost")
                    return
            finally:
                self._fleet.balance.end(member.number, wants)


async def _relay(member: Member, request: ForwardedRequest, answer: _Answer) -> None:
    async with aclosing(member.connection.answer(request)) as messages:
        try:
            async with asyncio.timeout(ACCEPT_SECONDS):
                await answer.take(await anext(messages))
        except TimeoutError:
            raise ReplicaLostError(f"took no request for {ACCEPT_SECONDS:g} s") from None
        async for message in messages:
            await answer.take(message)
    await answer.finish()


class _Answer:
    """The answer on its way to the client, and how far it is."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.accepted = False
        self._scope = scope
        self._send = send
        self._start: Start | None = None

    async def take(self, message: Message) -> None:
        if isinstance(message, Accepted):
            self.accepted = True
        elif isinstance(message, Start):
            self._start = message
            self._scope["route"] = Route(message.route)
            await self._send(
                {
                    "type": "http.response.start",
                    "status": message.status,
                    "headers": list(message.headers),
                }
            )
        else:
            await self._part(message.content, True)

    async def finish(self) -> None:
        await self._part(b"", False)

    async def refuse(self, message: str, code: str) -> None:
        """An error in place of the answer, or at its end; an answer that has no place for one is cut off."""
        if self._start is None:
            await send_error(self._send, 503, message, code, {"retry-after": "1"})
            return
        if dict(self._start.headers).get(b"content-type", b"").startswith(b"text/event-stream"):
            await self._part(event(error_body(503, message, code)), False)
            return
        raise BrokenAnswerError(self._scope["state"]["request_id"])

    async def _part(self, content: bytes, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": content, "more_body": more})


async def _body(receive: Receive) -> bytes:
    """All of it; the gate before this has bounded it."""
    parts: list[bytes] = []
    while True:
        message: Any = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _wanted(request: ForwardedRequest) -> Wanted:
    """A body that the replica will refuse wants nothing in particular."""
    if request.path not in GENERATING or request.method != "POST":
        return Wanted()
    try:
        body = read_object(dict(request.headers).get(b"content-type", b"").decode("latin-1"), request.body)
    except RequestError:
        return Wanted()
    return wanted(body, request.state["identity"])
