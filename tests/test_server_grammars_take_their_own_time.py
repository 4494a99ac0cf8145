"""Grammars that take long to compile delay other grammars alone, and never past a request's deadline."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from local_servers import wait_until
from protocol_server import MODEL, PATIENCE, ProtocolServer, protocol_server
from verispec.engine.model import Model
from verispec.serving.grammar_threads import THREADS, GrammarThreads
from verispec.serving.openai import constraints
from verispec.text.grammar import Grammar

GRAMMAR = 'start: " Paris" | " London"'


@contextmanager
def busy(server: ProtocolServer, threads: GrammarThreads) -> Iterator[None]:
    """Until the block ends, all grammar threads work on something that does not end."""
    over = threading.Event()
    working = [asyncio.run_coroutine_threadsafe(threads.run(over.wait), server.loop) for _ in range(THREADS)]
    try:
        yield
    finally:
        over.set()
        for one in working:
            one.exception(PATIENCE)


@pytest.fixture
def threads() -> GrammarThreads:
    return GrammarThreads()


@pytest.fixture
def server(smollm2: Model, threads: GrammarThreads) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2, grammar_threads=threads) as running:
        yield running


def test_other_requests_do_not_wait(server: ProtocolServer, threads: GrammarThreads) -> None:
    tool = {"type": "function", "function": {"name": "find"}}
    with busy(server, threads):
        assert server.complete(max_tokens=2, receipt=True).status_code == 200
        assert server.complete(prompt="word " * 900, max_tokens=1).status_code == 200
        assert server.chat(tools=[tool], max_tokens=2).status_code == 200
        assert server.complete(prompt=["a"] * 60, max_tokens=1, logprobs=5).status_code == 200
    assert server.complete(grammar=GRAMMAR).json()["choices"][0]["text"] in (" Paris", " London")


@pytest.mark.parametrize(
    "given",
    [
        {"grammar": GRAMMAR},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "any"}}},
        {
            "tools": [{"type": "function", "function": {"name": "find"}}],
            "tool_choice": "required",
        },
    ],
    ids=["grammar", "json_object", "json_schema", "tools"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_deadline_passes_for_a_grammar_that_waits(
    server: ProtocolServer, threads: GrammarThreads, given: dict[str, Any], stream: bool
) -> None:
    with busy(server, threads):
        response = server.chat(**given, deadline=0.2, stream=stream)
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "deadline_exceeded"


def test_a_grammar_waits_no_longer_than_is_sensible(smollm2: Model) -> None:
    threads = GrammarThreads(patience=0.2)
    with protocol_server(smollm2, grammar_threads=threads) as server, busy(server, threads):
        response = server.complete(grammar=GRAMMAR)
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("overloaded", "grammar")


def test_the_clocks_count_the_wait_of_every_choice(server: ProtocolServer, threads: GrammarThreads) -> None:
    with ThreadPoolExecutor(1) as pool:
        with busy(server, threads):
            asked = pool.submit(lambda: server.complete(grammar=GRAMMAR, n=3, timings=True).json())
            wait_until(lambda: threads.asked == THREADS + 1)
            time.sleep(0.3)
        timings = asked.result(PATIENCE)["timings"]
    assert timings["queued_seconds"] > 0.3
    assert timings["first_token_seconds"] > timings["queued_seconds"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_takes_its_grammar_along(
    server: ProtocolServer, threads: GrammarThreads, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    class Watched(Grammar):
        @classmethod
        def ebnf(cls, text: str) -> Grammar:
            read.append(text)
            return Grammar.ebnf(text)

    monkeypatch.setattr(constraints, "Grammar", Watched)
    with busy(server, threads):
        leaver = ask(server, grammar='start: "left"', stream=stream)
        wait_until(lambda: threads.asked == THREADS + 1)
        leaver.close()
        wait_until(lambda: threads.asked == THREADS)
    assert server.complete(grammar=GRAMMAR).status_code == 200
    assert read == [GRAMMAR]


def ask(server: ProtocolServer, **given: Any) -> socket.socket:
    body = json.dumps({"model": MODEL, "prompt": "a", **given}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    return connection
