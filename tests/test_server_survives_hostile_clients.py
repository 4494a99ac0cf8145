"""A thousand connections, clients that leave at every stage, broken bodies: others are answered, nothing is kept."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import psutil
import pytest

from local_servers import exchange, post, read_all, status, wait_until
from rotation import REPEAT, TODAY
from verispec.engine.model import Model
from whole_server import WholeServer, whole_server

TICK = 0.5
GROWTH_A_SECOND = (64 << 20) / 15
"""Bytes that a second of abuse may add for good: a bound by time, so that a shorter test sees the same leak."""
JSON = "Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[WholeServer]:
    limits = {
        "header_timeout": 4 * TICK,
        "body_timeout": TICK,
        "write_timeout": TICK,
        "max_connections": 1200,
    }
    with whole_server(smollm2, queue=30, **limits) as running:
        yield running


def request(**parameters: object) -> bytes:
    body = {
        "model": "smollm2-135m",
        "prompt": "one two one two",
        "max_tokens": 6,
        "temperature": 0,
        **parameters,
    }
    return post("/v1/completions", json.dumps(body).encode(), JSON)


def answer(server: WholeServer, **parameters: object) -> str:
    response = exchange(server.address, request(**parameters), 60)
    assert status(response) == 200
    return str(json.loads(response.split(b"\r\n\r\n", 1)[1])["choices"][0]["text"])


def settle(server: WholeServer) -> None:
    """Waits until no request is left."""
    with server.client() as client:
        wait_until(lambda: client.get("/health").json()["requests"] == {"running": 0, "waiting": 0}, 60)


def test_a_thousand_idle_connections_do_not_keep_others_out(server: WholeServer) -> None:
    expected = answer(server)
    idle = [socket.create_connection(server.address, 30) for _ in range(1000)]
    try:
        for number, connection in enumerate(idle):
            if number % 2:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        assert answer(server) == expected
        wait_until(lambda: len(server.server.server_state.connections) < 10, 60)
    finally:
        for connection in idle:
            connection.close()


def test_a_thousand_requests_at_once_are_answered_or_told_to_come_again(server: WholeServer) -> None:
    expected = answer(server, max_tokens=1)
    open_connections = [socket.create_connection(server.address, 120) for _ in range(1000)]
    for connection in open_connections:
        connection.sendall(request(max_tokens=1))
    seen = {200: 0, 429: 0, 503: 0}
    for connection in open_connections:
        response = read_all(connection)
        connection.close()
        seen[status(response)] += 1
        if status(response) == 200:
            assert json.loads(response.split(b"\r\n\r\n", 1)[1])["choices"][0]["text"] == expected
        else:
            assert b"\r\nretry-after: " in response.lower()
    assert seen[200] >= 30
    settle(server)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model": "\xff\xfe"}',
        b'{"model": "\\ud800"}',
        b"null",
        b"[]",
        b"9" * 5000,
        b'{"model": "smollm2-135m", "prompt": ' + b"1" * 5000 + b"}",
        b'{"model": "smollm2-135m", "prompt": "a", "logit_bias": {"1e9": 1}}',
        bytes(range(256)),
    ],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_broken_body_is_refused_with_400(server: WholeServer, path: str, body: bytes) -> None:
    response = exchange(server.address, post(path, body, JSON))
    assert status(response) == 400
    assert json.loads(response.split(b"\r\n\r\n", 1)[1])["error"]["message"]


def test_clients_that_leave_at_every_stage_leave_nothing_behind(server: WholeServer) -> None:
    whole = request(stream=True, max_tokens=200, ignore_eos=True)
    cuts = [0, 1, 20, whole.index(b"\r\n\r\n"), whole.index(b"\r\n\r\n") + 6, len(whole)]
    for cut in cuts:
        for wait in (0.0, 0.05, 0.3):
            with socket.create_connection(server.address, 30) as connection:
                connection.sendall(whole[:cut])
                time.sleep(wait)
    for _ in range(10):  # those that have seen a part of their answer
        with socket.create_connection(server.address, 60) as connection:
            connection.sendall(whole)
            assert connection.recv(500)
    settle(server)
    assert answer(server)


def test_readers_that_stall_do_not_hold_the_engine(server: WholeServer) -> None:
    stalled = []
    for _ in range(4):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(server.address)
        connection.sendall(request(stream=True, max_tokens=300, ignore_eos=True, logprobs=20))
        stalled.append(connection)
    try:
        assert answer(server)
        settle(server)
    finally:
        for connection in stalled:
            connection.close()


def test_under_mixed_abuse_every_answer_is_right_and_memory_stays(server: WholeServer) -> None:
    expected = answer(server)
    stop = time.monotonic() + 5
    wrong: list[str] = []
    answered = [0]

    def behave() -> None:
        while time.monotonic() < stop:
            with httpx.Client(base_url=server.url, timeout=60) as client:
                body = {
                    "model": "smollm2-135m",
                    "prompt": "one two one two",
                    "max_tokens": 6,
                    "temperature": 0,
                }
                response = client.post("/v1/completions", json=body)
                if response.status_code == 200 and response.json()["choices"][0]["text"] != expected:
                    wrong.append(response.text)
                elif response.status_code not in (200, 429, 503):
                    wrong.append(f"{response.status_code} {response.text}")
                answered[0] += response.status_code == 200

    def misbehave(number: int) -> None:
        chance = random.Random(TODAY * 4 + number)
        while time.monotonic() < stop:
            sent = request(stream=chance.random() < 0.5, max_tokens=chance.randrange(1, 60), ignore_eos=True)
            with socket.create_connection(server.address, 30) as connection:
                try:
                    connection.sendall(sent[: chance.randrange(len(sent) + 200)])
                    if chance.random() < 0.5:
                        connection.settimeout(0.2)
                        connection.recv(chance.randrange(1, 2000))
                except (OSError, TimeoutError):
                    pass

    run_all(behave, lambda: misbehave(1))  # warm: buffers and caches have grown to their size
    settle(server)
    before = psutil.Process().memory_info().rss
    stop = time.monotonic() + (seconds := 7.0)
    run_all(behave, behave, lambda: misbehave(2), lambda: misbehave(3))
    settle(server)
    grown = psutil.Process().memory_info().rss - before
    case = f"seeds {TODAY * 4 + 1} to {TODAY * 4 + 3} ({REPEAT})"
    assert not wrong, case
    assert answered[0] > 4, case
    assert grown < GROWTH_A_SECOND * seconds, case


def run_all(*jobs: Callable[[], None]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
