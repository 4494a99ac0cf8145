"""A request lasts as long as its client: who leaves, at any stage, takes the work along and leaves nothing behind."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol_server import MODEL, PATIENCE, QUESTION, ProtocolServer, protocol_server
from verispec.engine.batching.scheduler import SchedulerLimits
from verispec.engine.model import Model

LONG = {"max_tokens": 900, "ignore_eos": True, "temperature": 0, "spec_mode": "off"}


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2, SchedulerLimits(parallel=2, queue=8)) as running:
        yield running


def open_request(server: ProtocolServer, **given: Any) -> socket.socket:
    """A chat request on the wire; what comes back has not been read."""
    body = json.dumps({"model": MODEL, "messages": QUESTION, **LONG, **given}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    return connection


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def generated_of(server: ProtocolServer) -> int:
    return server.engine.statistics.generated_tokens


@pytest.mark.parametrize("given", [{"stream": True}, {"stream": False}, {"stream": True, "n": 2}, {"n": 2}])
def test_leaving_a_running_answer_ends_it(server: ProtocolServer, given: dict[str, Any]) -> None:
    begun = generated_of(server)
    cancelled = server.engine.statistics.finished["cancelled"]
    connection = open_request(server, **given)
    wait_for(lambda: generated_of(server) > begun + 3)
    connection.close()
    server.settle()
    assert generated_of(server) < begun + 600
    assert server.engine.statistics.finished["cancelled"] == cancelled + given.get("n", 1)


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_the_queue_gives_the_place_back(server: ProtocolServer, stream: bool) -> None:
    running = open_request(server, stream=True, n=2)
    wait_for(lambda: server.engine.statistics.running == 2)
    waiting = open_request(server, stream=stream)
    wait_for(lambda: server.engine.statistics.waiting == 1)
    waiting.close()
    wait_for(lambda: server.engine.statistics.waiting == 0)
    assert server.engine.statistics.running == 2
    running.close()
    server.settle()


def test_leaving_at_once_leaves_nothing(server: ProtocolServer) -> None:
    for stream in (True, False) * 10:
        open_request(server, stream=stream).close()
    server.settle()


def test_others_are_unaffected_when_one_leaves(server: ProtocolServer, smollm2: Model) -> None:
    alone = smollm2.generate(QUESTION, max_tokens=60, temperature=0.9, seed=4)
    leaver = open_request(server, stream=True)
    wait_for(lambda: server.engine.statistics.running == 1)
    answers: list[str] = []
    ask = threading.Thread(
        target=lambda: answers.append(
            server.chat(max_tokens=60, temperature=0.9, seed=4).json()["choices"][0]["message"]["content"]
        )
    )
    ask.start()
    wait_for(lambda: server.engine.statistics.running == 2)
    leaver.close()
    ask.join()
    assert answers == [alone.text]
    server.settle()


@pytest.mark.parametrize("stream", [True, False])
def test_when_one_choice_fails_the_others_end_too(server: ProtocolServer, stream: bool) -> None:
    """The deadline passes for choices that wait while the others run."""
    response = server.chat(**{**LONG, "n": 4, "deadline": 0.3, "stream": stream})
    assert "deadline_exceeded" in response.text.split("\n\n")[-2 if response.status_code == 200 else -1]
    assert response.status_code == 504 or stream
    server.settle()
