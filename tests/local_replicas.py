"""A front with its replicas in one process: everything that ``serve --ray`` runs, but for Ray."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from local_servers import wait_until
from verispec.serving.keys import KeyRing
from verispec.serving.lifecycle import DrainingServer, Lifecycle
from verispec.serving.replicas.fleet import Fleet
from verispec.serving.replicas.front import create_front
from verispec.serving.replicas.member import ReplicaLostError
from verispec.serving.replicas.messages import ForwardedRequest, Message
from verispec.serving.replicas.replica import Replica
from verispec.serving.settings import ServerSettings
from verispec.serving.start import around


@dataclass
class LocalReplica:
    """A ``Connection`` to a replica of this process. ``dead``: it is as after a crash. ``dies_at``: it dies before
    the message of that number."""

    settings: ServerSettings
    dead: bool = False
    dies_at: int | None = None
    answered: int = 0
    replica: Replica | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, method: str, *arguments: Any, seconds: float) -> Any:
        return await getattr(await self._living(), method)(*arguments)

    async def answer(self, request: ForwardedRequest) -> AsyncGenerator[Message, None]:
        replica = await self._living()
        self.answered += 1
        answer = replica.answer(request)
        try:
            number = 0
            async for message in answer:
                if number == self.dies_at:
                    self.dead = True
                if self.dead:
                    raise ReplicaLostError("it died")
                yield message
                number += 1
        finally:
            await answer.aclose()

    async def _living(self) -> Replica:
        if self.dead:
            raise ReplicaLostError("it is dead")
        async with self._starting:
            if self.replica is None:
                self.replica = Replica.__new__(Replica)
                await self.replica.__init__(self.settings, int(time.time()))  # as Ray Serve does it
        return self.replica


@dataclass(frozen=True)
class LocalFleet:
    server: DrainingServer
    fleet: Fleet
    replicas: list[LocalReplica]
    url: str

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def running(self) -> list[int]:
        """Answers that each engine writes or has waiting."""
        return [
            one.replica._engine.statistics.running + one.replica._engine.statistics.waiting
            for one in self.replicas
            if one.replica
        ]

    def metric(self, name: str) -> dict[str, float]:
        """The samples of one name, by their labels as they are written."""
        with self.client() as client:
            lines = client.get("/metrics").text.splitlines()
        found = [line.rsplit(" ", 1) for line in lines if line.startswith(f"verispec:{name}{{")]
        return {key[key.index("{") :]: float(value) for key, value in found}


@contextmanager
def local_fleet(keys: tuple[str, ...] = (), **settings: Any) -> Iterator[LocalFleet]:
    """Two replicas behind a front on a free loopback port; ``settings`` are those of ``ServerSettings.of``."""
    chosen = ServerSettings.of(
        {"model": "smollm2-135m", "ctx": 1024, "threads": 1, "parallel": 2, "ray": True, **settings}
    )
    replicas = [LocalReplica(chosen) for _ in range(chosen.replica_count)]
    fleet, lifecycle = Fleet(replicas, chosen.parallel), Lifecycle()
    app = create_front(fleet, chosen, lifecycle, KeyRing(keys))
    server = around(app, fleet, chosen, lifecycle, lambda: None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started and len(fleet.serving) == len(replicas), 60)
            yield LocalFleet(server, fleet, replicas, f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()
