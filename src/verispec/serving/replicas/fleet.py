"""The replicas behind one front: who is alive, who gets what, and their common end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Any

from verispec.errors import BackendError
from verispec.serving.replicas.balance import Balance
from verispec.serving.replicas.member import Connection, Member, ReplicaLostError
from verispec.serving.replicas.prefix_key import Wanted

LOG = logging.getLogger("verispec.replicas")
WATCH_SECONDS = 1.0
"""Between two questions for a sign of life."""
PATIENCE_SECONDS = 10.0
"""For one; a busy machine is slow and not dead."""
REPORT_SECONDS = 5.0
"""For a report that somebody waits for."""


class NoReplicaError(BackendError):
    """No replica serves at the moment."""


class Fleet:
    """To be used on one event loop, from ``start`` on."""

    def __init__(self, connections: Sequence[Connection], seats: int) -> None:
        self.members = [Member(number, one) for number, one in enumerate(connections)]
        self.balance = Balance(seats)
        self._watching: list[asyncio.Task[None]] = []

    @property
    def serving(self) -> list[Member]:
        return [member for member in self.members if member.serves]

    def start(self) -> None:
        """Begins to watch the replicas."""
        self._watching = [asyncio.ensure_future(self._watch(member)) for member in self.members]

    def choose(self, wanted: Wanted, without: Collection[int] = ()) -> Member:
        """The replica for a request, which is its own until ``balance.end``. Raises NoReplicaError."""
        among = [member.number for member in self.serving if member.number not in without]
        if not among:
            raise NoReplicaError("no replica serves at the moment")
        return self.members[self.balance.choose(wanted, among)]

    def lose(self, member: Member, why: str) -> None:
        """Gives it no requests until there is a new sign of life; its cache is gone, or might be."""
        if member.serves:
            LOG.warning("replica %d %s", member.number, why)
        member.lost = why
        self.balance.table.forget(member.number)

    async def ask_all(self, method: str, *arguments: Any) -> dict[int, Any]:
        """What each replica that serves and is in time says, by number."""
        asked = self.serving
        asking = [one.connection.ask(method, *arguments, seconds=REPORT_SECONDS) for one in asked]
        said = await asyncio.gather(*asking, return_exceptions=True)
        answers: dict[int, Any] = {}
        for member, answer in zip(asked, said, strict=True):
            if not isinstance(answer, BaseException):
                answers[member.number] = answer
            elif not isinstance(answer, ReplicaLostError):
                raise answer
        return answers

    async def look(self, member: Member) -> None:
        """Asks for a sign of life and remembers what came of it."""
        try:
            sign = await member.connection.ask("sign", seconds=PATIENCE_SECONDS)
        except ReplicaLostError as error:
            self.lose(member, f"lost: {error}")
            return
        if member.sign is not None and member.sign.incarnation != sign.incarnation:
            self.balance.table.forget(member.number)
        lost = None if sign.failure is None else f"failed: {sign.failure}"
        if lost != member.lost:
            LOG.info("replica %d %s", member.number, lost or f"serves, process {sign.pid}")
        member.sign, member.lost = sign, lost

    async def drain(self, seconds: float) -> None:
        """Lets each replica end what it runs, for up to ``seconds``; nobody is watched any more."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        asking = [
            member.connection.ask("drain", seconds, seconds=seconds + PATIENCE_SECONDS)
            for member in self.serving
        ]
        await asyncio.gather(*asking, return_exceptions=True)

    async def _watch(self, member: Member) -> None:
        while True:
            await self.look(member)
            await asyncio.sleep(WATCH_SECONDS)
