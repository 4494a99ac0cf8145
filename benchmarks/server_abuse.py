"""Clients that treat a server badly, one function a way; each comes and goes within a few seconds.

They take the server's address and a source of chance, and give the status that they were answered with: 0 for none.
Only addresses of this machine are ever called.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from benchmarks.server_process import SERVED_AS

Address = tuple[str, int]
Abuse = Callable[[Address, random.Random], int]

SECONDS = 20.0
"""What a client waits for an answer."""
STORY = "Once upon a time there was a keeper of a light. "


def request(
    body: dict[str, object] | bytes, path: str = "/v1/completions", length: int | None = None
) -> bytes:
    """The bytes of a POST; ``length`` is what the head claims."""
    data = body if isinstance(body, bytes) else json.dumps({"model": SERVED_AS, **body}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    return f"{head}Content-Length: {len(data) if length is None else length}\r\n\r\n".encode() + data


def writing(chance: random.Random, **more: object) -> bytes:
    """A request for an answer that takes a while."""
    count = chance.randrange(1, 30)
    body: dict[str, object] = {"prompt": STORY * count, "max_tokens": 300, "ignore_eos": True, **more}
    return request(body)


def idle(address: Address, chance: random.Random) -> int:
    """Says nothing until it is cut off, or leaves first."""
    with _connected(address) as connection:
        connection.settimeout(chance.uniform(0.1, 3.0))
        return _status(connection)


def half_a_head(address: Address, chance: random.Random) -> int:
    whole = writing(chance)
    with _connected(address) as connection:
        connection.sendall(whole[: chance.randrange(1, whole.index(b"\r\n\r\n"))])
        connection.settimeout(chance.uniform(0.1, 3.0))
        return _status(connection)


def half_a_body(address: Address, chance: random.Random) -> int:
    whole = writing(chance)
    with _connected(address) as connection:
        connection.sendall(whole[: chance.randrange(whole.index(b"\r\n\r\n") + 4, len(whole))])
        connection.settimeout(chance.uniform(0.1, 3.0))
        return _status(connection)


def drop_by_drop(address: Address, chance: random.Random) -> int:
    """A head that arrives byte by byte."""
    with _connected(address) as connection:
        for byte in writing(chance)[: chance.randrange(5, 40)]:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
        return 0


def ten_megabytes(address: Address, chance: random.Random) -> int:
    body = b'{"model": "%s", "prompt": "%s"}' % (SERVED_AS.encode(), b"a" * 10_000_000)
    return _exchange(address, request(body))


def deep_json(address: Address, chance: random.Random) -> int:
    opening = chance.choice((b"[", b'{"a":', b'{"model": [', b'{"messages": [{"content": ['))
    return _exchange(
        address, request(opening * 100_000, chance.choice(("/v1/completions", "/v1/chat/completions")))
    )


def broken_text(address: Address, chance: random.Random) -> int:
    """Bytes that are no UTF-8, no JSON, or no object."""
    bodies = (
        b'{"model": "\xff\xfe"}',
        b'{"model": "\\ud800"}',
        chance.randbytes(500),
        b"null",
        b"",
        b"1" * 5000,
    )
    return _exchange(address, request(chance.choice(bodies)))


def no_http(address: Address, chance: random.Random) -> int:
    return _exchange(
        address, chance.choice((b"\x16\x03\x01\x02\x00", b"nonsense\r\n\r\n", chance.randbytes(300)))
    )


def wrong_parameters(address: Address, chance: random.Random) -> int:
    wrong: tuple[dict[str, object], ...] = (
        {"prompt": "a", "temperature": "hot"},
        {"prompt": [], "n": 3},
        {"prompt": "a", "nonsense": True},
        {"prompt": "a", "grammar": "start: ("},
        {"prompt": STORY * 2000},
        {"prompt": "a", "n": 128},
    )
    return _exchange(address, request(chance.choice(wrong)))


def leaves_at_once(address: Address, chance: random.Random) -> int:
    """Asks and is gone, politely or with a reset."""
    with _connected(address) as connection:
        connection.sendall(writing(chance, stream=chance.random() < 0.5))
        if chance.random() < 0.5:
            _reset(connection)
        return 0


def leaves_later(address: Address, chance: random.Random) -> int:
    """While it waits in the queue, while its prompt is read or while its answer is written."""
    with _connected(address) as connection:
        connection.sendall(writing(chance, stream=chance.random() < 0.5, n=chance.choice((1, 2))))
        time.sleep(chance.uniform(0.0, 1.5))
        if chance.random() < 0.5:
            _reset(connection)
        return 0


def leaves_in_a_stream(address: Address, chance: random.Random) -> int:
    with _connected(address) as connection:
        connection.sendall(writing(chance, stream=True))
        found = _status(connection)
        with suppress(OSError):
            connection.recv(chance.randrange(1, 3000))
        return found


def half_closed(address: Address, chance: random.Random) -> int:
    """Has said all it has to say, closes its side and goes on reading."""
    with _connected(address) as connection:
        connection.sendall(writing(chance, stream=True, max_tokens=20))
        connection.shutdown(socket.SHUT_WR)
        return _status(connection)


def half_open(address: Address, chance: random.Random) -> int:
    """As if its machine were gone: neither reads nor closes until the server has long filled the buffers."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address)
        connection.sendall(writing(chance, stream=True, logprobs=20))
        time.sleep(chance.uniform(0.5, 4.0))
        return 0


def reads_slowly(address: Address, chance: random.Random) -> int:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(SECONDS)
        connection.connect(address)
        connection.sendall(writing(chance, stream=True, logprobs=20))
        found = _status(connection)
        with suppress(OSError):
            for _ in range(chance.randrange(5, 30)):
                connection.recv(64)
                time.sleep(0.1)
        return found


def many_connections(address: Address, chance: random.Random) -> int:
    """A thousand at once; some begin to speak."""
    connections: list[socket.socket] = []
    try:
        with suppress(OSError):
            for number in range(1000):
                connections.append(_connected(address))
                if number % 3 == 0:
                    connections[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        time.sleep(0.5)
    finally:
        for connection in connections:
            connection.close()
    return 0


def many_requests(address: Address, chance: random.Random) -> int:
    """A hundred at once: more than the queue holds. Gives the last status."""
    connections: list[socket.socket] = []
    found = 0
    try:
        with suppress(OSError):
            for _ in range(100):
                connections.append(_connected(address))
                connections[-1].sendall(request({"prompt": "a b c", "max_tokens": 2}))
            for connection in connections:
                found = _status(connection)
    finally:
        for connection in connections:
            connection.close()
    return found


def requests_ahead(address: Address, chance: random.Random) -> int:
    """Sends requests ahead of their answers and reads none."""
    with _connected(address) as connection, suppress(OSError):
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200)
        return _status(connection)
    return 0


ABUSES: tuple[Abuse, ...] = (
    idle, half_a_head, half_a_body, drop_by_drop, ten_megabytes, deep_json, broken_text, no_http, wrong_parameters,
    leaves_at_once, leaves_later, leaves_in_a_stream, half_closed, half_open, reads_slowly, many_connections,
    many_requests, requests_ahead,
)  # fmt: skip


def _connected(address: Address) -> socket.socket:
    return socket.create_connection(address, SECONDS)


def _exchange(address: Address, data: bytes) -> int:
    with _connected(address) as connection:
        with suppress(OSError):  # the server may answer and close before it has read all
            connection.sendall(data)
        return _status(connection)


def _status(connection: socket.socket) -> int:
    """The status line's number; 0 when the connection ends without one or nothing comes in time."""
    try:
        line = connection.recv(13)
    except OSError:
        return 0
    words = line.split(b" ")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _reset(connection: socket.socket) -> None:
    """Makes the coming close a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
