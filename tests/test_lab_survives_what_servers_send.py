"""A server that sends without end, in pieces or too much, costs the lab little, and what it lists is read as it is."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from verispec.lab.client import events, fetch
from verispec.lab.client.events import EventBuffer, split_events
from verispec.lab.faults import LaneFaultError
from verispec.lab.identity import machine
from verispec.lab.lane.questions import served_model
from verispec.lab.launch import server_log


def test_events_are_the_same_in_whatever_pieces_they_arrive() -> None:
    content = b': hello\r\n\r\ndata: {"a": 1}\n\ndata: x\r\ndata: y\r\n\r\n\n\ndata: [DONE]\n\ndata: re'
    whole, rest = split_events(content)
    for size in (1, 2, 3, 7, 1000):
        buffer = EventBuffer()
        found = [one for at in range(0, len(content), size) for one in buffer.add(content[at : at + size])]
        assert found == whole
        assert buffer.add(b"st\n\n") == [(rest + b"st")[6:]]


def test_an_event_without_end_costs_its_length_once_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST_EVENT", 1 << 20)
    split: list[int] = []
    monkeypatch.setattr(events, "split_events", lambda content: split.append(len(content)) or ([], content))
    buffer = EventBuffer()
    for _ in range(1042):
        assert buffer.add(b"data: " + b"x" * 1000) == []
    with pytest.raises(LaneFaultError, match="stream-garbage") as caught:
        buffer.add(b"x" * 1000)
    assert "1048576 bytes without an end" in caught.value.detail
    assert not split  # nothing was gone through again and again


Answer = Callable[[socket.socket], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                try:
                    answer(connection)
                except OSError:  # the client has gone
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(5)


def drip(first: bytes) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.sendall(first)
        for _ in range(100):
            connection.sendall(b"x")
            time.sleep(0.02)

    return answer


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_page_that_drips_ends_in_time(first: bytes) -> None:
    with answering(drip(first)) as url:
        began = time.monotonic()
        assert fetch.fetch(url, 0.2) is None
        assert time.monotonic() - began < 1.0


def test_a_page_that_is_too_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LONGEST_PAGE", 100)
    for length, expected in ((100, "y" * 100), (101, None)):
        content = b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * length
        with answering(lambda connection, content=content: connection.sendall(content)) as url:
            assert fetch.fetch(url, 5.0) == expected


@pytest.mark.parametrize(
    ("listed", "served"),
    [
        (["other", "mine"], "mine"), (["other", "mine:latest"], "mine:latest"), (["other", "third"], "other"),
        ([], "mine"),
    ],
)  # fmt: skip
def test_the_declared_model_is_asked_where_it_is_listed(listed: list[str], served: str) -> None:
    content = json.dumps({"data": [{"id": name} for name in listed]}).encode()
    page = b"HTTP/1.1 200 OK\r\n\r\n" + content
    with answering(lambda connection: connection.sendall(page)) as url:
        assert served_model(url, "mine") == served


def test_a_governor_that_changes_between_lanes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    facts: dict[str, Any] = {"governor": "powersave", "huge_pages": "never"}
    monkeypatch.setattr(machine, "host_facts", lambda: dict(facts))
    monkeypatch.setattr(machine, "gpus", list)
    assert machine.machine_facts()["governor"] == "powersave"
    facts |= {"governor": "performance", "huge_pages": "always"}
    again = machine.machine_facts()
    assert (again["governor"], again["huge_pages"]) == ("performance", "always")


def test_of_a_long_log_both_ends_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_log, "KEPT_BYTES", 1000)
    log = tmp_path / "log"
    assert server_log.kept_log(log) == server_log.log_end(log) == b""
    for size in (10, 999, 1500, 2000):
        content = bytes(65 + at % 26 for at in range(size))
        log.write_bytes(content)
        assert server_log.kept_log(log) == content
    content = b"begin" + b"x" * 5000 + b"the end"
    log.write_bytes(content)
    kept = server_log.kept_log(log)
    assert kept.startswith(content[:1000])
    assert kept.endswith(content[-1000:])
    assert b"[the lab has cut 3012 bytes here]" in kept
    assert server_log.log_end(log, 7) == b"the end"
