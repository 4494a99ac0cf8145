"""ASGI applications served on a free loopback port for a test, and raw sockets to treat them badly."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp
from uvicorn import Config, Server

from verispec.serving.connections import ConnectionLimits, bounded_protocol


@contextmanager
def served(
    app: ASGIApp, connections: int = 100, header_timeout: float = 10.0, write_timeout: float = 10.0
) -> Iterator[tuple[str, int]]:
    """(host, port) at which ``app`` answers, behind bounded connections, until the block ends."""
    limits = ConnectionLimits(connections, header_timeout, write_timeout)
    config = Config(
        app, http=bounded_protocol(limits), ws="none", lifespan="off", log_config=None, access_log=False
    )
    config.timeout_graceful_shutdown = 1
    server = Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Waits for a condition; fails the test when it does not come."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def exchange(address: tuple[str, int], data: bytes, seconds: float = 10.0) -> bytes:
    """Sends ``data`` and gives everything that comes back until the server closes."""
    with socket.create_connection(address, seconds) as connection:
        connection.sendall(data)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionError:
        pass
    return received


def post(path: str, body: bytes, headers: str = "") -> bytes:
    """The bytes of a POST request that closes its connection."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    return (head + headers + "\r\n").encode() + body


def get(path: str, headers: str = "") -> bytes:
    """The bytes of a GET request that closes its connection."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n".encode()


def status(response: bytes) -> int:
    """The status of a response; 0 when there is none."""
    return int(response.split(b" ", 2)[1]) if response else 0
