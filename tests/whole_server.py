"""The whole server in this process, around a model that a test has loaded."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from local_servers import wait_until
from verispec.engine.model import Model
from verispec.serving.keys import KeyRing
from verispec.serving.lifecycle import DrainingServer
from verispec.serving.settings import ServerSettings
from verispec.serving.start import build_server


@dataclass(frozen=True)
class WholeServer:
    server: DrainingServer
    address: tuple[str, int]

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def whole_server(model: Model, keys: tuple[str, ...] = (), **settings: Any) -> Iterator[WholeServer]:
    """A server on a free loopback port until the block ends; ``settings`` are those of ``ServerSettings.of``."""
    chosen = ServerSettings.of({"model": "smollm2-135m", "parallel": 2, **settings})
    server = build_server(chosen, model, KeyRing(keys), lambda: None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield WholeServer(server, listener.getsockname())
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
