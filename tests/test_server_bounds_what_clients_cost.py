"""A client that stalls, floods or sends too much is refused or cut off, and others are answered all the while."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest
from starlette.types import Receive, Scope, Send

from local_servers import exchange, get, post, read_all, served, status, wait_until
from verispec.serving.limits import RequestGate, RequestLimits

BODY_BYTES = 1000
TICK = 0.2


class Echo:
    """Answers with the length of the body; ``/slow`` waits first, ``/flood`` writes until nobody reads."""

    def __init__(self) -> None:
        self.disconnected = 0
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.inside += 1
        try:
            await self.answer(scope, receive, send)
        finally:
            self.inside -= 1

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        if scope["path"] == "/slow":
            await asyncio.sleep(3 * TICK)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/flood":
            gone = asyncio.ensure_future(receive())
            while not gone.done():
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0)
            self.disconnected += 1
            return
        await send({"type": "http.response.body", "body": b"%d" % len(message["body"])})


def gate(echo: Echo, requests: int = 100, draining: bool = False) -> RequestGate:
    return RequestGate(echo, RequestLimits(BODY_BYTES, TICK, requests), lambda: draining)


def error_of(response: bytes) -> str:
    """The code of an answer that is an error in OpenAI's shape."""
    error = json.loads(response.split(b"\r\n\r\n", 1)[1])["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return str(error["code"])


def test_a_body_within_the_limit_arrives_whole() -> None:
    with served(gate(Echo())) as address:
        for size in (0, 1, BODY_BYTES):
            assert exchange(address, post("/", b"x" * size)).endswith(b"\r\n%d\r\n0\r\n\r\n" % size)


@pytest.mark.parametrize("size", [BODY_BYTES + 1, 10_000_000])
def test_a_body_over_the_limit_is_refused_and_its_sender_reads_why(size: int) -> None:
    with served(gate(Echo())) as address:
        response = exchange(address, post("/", b"x" * size))
        assert status(response) == 413
        assert error_of(response) == "request_too_large"


def test_a_chunked_body_is_counted_as_it_comes() -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(gate(Echo())) as address:
        small = exchange(address, head + b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        large = exchange(address, head + b"%x\r\n" % 2000 + b"x" * 2000 + b"\r\n0\r\n\r\n")
    assert status(small) == 200
    assert status(large) == 413


def test_a_client_that_asks_first_is_refused_before_it_sends() -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n"
    with served(gate(Echo())) as address:
        assert status(exchange(address, head)) == 413


def test_a_body_that_never_ends_is_given_up() -> None:
    with served(gate(Echo())) as address:
        response = exchange(address, post("/", b"x" * 10).replace(b": 10", b": 50"))
        assert status(response) == 408
        assert error_of(response) == "request_timeout"


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_head_that_never_ends_is_given_up(sent: bytes) -> None:
    with served(gate(Echo()), header_timeout=TICK) as address:
        began = time.monotonic()
        response = exchange(address, sent)
        assert status(response) == 408
        assert TICK / 2 < time.monotonic() - began < 20 * TICK


def test_a_second_head_on_a_connection_is_timed_too() -> None:
    with (
        served(gate(Echo()), header_timeout=TICK) as address,
        socket.create_connection(address, 10) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT")
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in received


def test_a_head_without_bounds_is_refused() -> None:
    endless = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"x-%d: y\r\n" % i for i in range(20000))
    with served(gate(Echo())) as address:
        response = exchange(address, endless)
        assert status(response) in (0, 431)  # its sender may see the closed connection first
        assert status(exchange(address, get("/"))) == 200


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"]
)
def test_what_is_not_http_is_refused_in_the_same_shape(sent: bytes) -> None:
    with served(gate(Echo())) as address:
        response = exchange(address, sent)
    assert status(response) == 400
    assert error_of(response) == "invalid_http"


def test_a_reader_that_stops_is_cut_off_and_its_request_ended() -> None:
    echo = Echo()
    with served(gate(echo), write_timeout=TICK) as address, socket.create_connection(address) as stalled:
        stalled.sendall(get("/flood"))
        wait_until(lambda: echo.disconnected == 1)
        wait_until(lambda: echo.inside == 0)
        assert status(exchange(address, get("/"))) == 200


def test_requests_past_the_most_at_once_are_told_to_come_again() -> None:
    echo = Echo()
    with served(gate(echo, requests=2)) as address:
        waiting = [socket.create_connection(address, 10) for _ in range(2)]
        for connection in waiting:
            connection.sendall(get("/slow"))
        wait_until(lambda: echo.inside == 2)
        refused = exchange(address, get("/"))
        healthy = exchange(address, get("/health"))
        answers = [read_all(connection) for connection in waiting]
    assert status(refused) == 503
    assert b"\r\nretry-after: 1\r\n" in refused
    assert error_of(refused) == "overloaded"
    assert status(healthy) == 200
    assert [status(answer) for answer in answers] == [200, 200]


def test_connections_past_the_most_are_closed_and_places_come_back() -> None:
    with served(gate(Echo()), connections=3, header_timeout=2 * TICK) as address:
        idle = [socket.create_connection(address, 10) for _ in range(3)]
        refused = exchange(address, b"")
        assert status(refused) == 503
        assert error_of(refused) == "too_many_connections"
        for connection in idle:
            assert status(read_all(connection)) == 408
        assert status(exchange(address, get("/"))) == 200


def test_requests_sent_ahead_are_bounded() -> None:
    with served(gate(Echo())) as address:
        few = exchange(address, (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 5) + get("/"))
        many = exchange(
            address, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 500
        )
        assert few.count(b"HTTP/1.1 200 ") == 6
        assert many.count(b"HTTP/1.1 200 ") < 20
        assert status(exchange(address, get("/"))) == 200


def test_a_server_that_drains_refuses_work_and_answers_questions() -> None:
    with served(gate(Echo(), draining=True)) as address:
        refused = exchange(address, post("/v1/completions", b"{}"))
        assert status(refused) == 503
        assert b"\r\nretry-after: " in refused
        assert error_of(refused) == "shutting_down"
        assert status(exchange(address, get("/v1/models"))) == 200


def test_a_client_that_leaves_during_its_body_leaves_nothing_behind() -> None:
    echo = Echo()
    limited = gate(echo)
    with served(limited) as address:
        with socket.create_connection(address) as connection:
            connection.sendall(post("/", b"x" * 10).replace(b": 10", b": 50"))
            wait_until(lambda: limited.active == 1)
        wait_until(lambda: limited.active == 0)
        assert echo.inside == 0
