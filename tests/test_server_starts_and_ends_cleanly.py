"""``verispec serve`` as a process: ready when it says so, one line when it cannot be, gone in order when told to go."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from local_servers import wait_until

LONG = {"prompt": "one two one two", "temperature": 0, "ignore_eos": True, "stream": True}
ENDLESS = {**LONG, "max_tokens": 4000, "n": 16, "spec_mode": "off"}
"""Minutes of work for a server that writes one answer at a time."""


@contextmanager
def serving(model: Path, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process on a free port, ready, and its URL."""
    command = [sys.executable, "-m", "verispec", "serve", str(model), "--port", "0", "--json", *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        ready = json.loads(line)
        assert ready["pid"] == process.pid
        yield process, ready["url"]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_running_answer_is_finished_new_ones_are_refused_and_the_exit_is_0(smollm2_path: Path) -> None:
    body = {**LONG, "model": smollm2_path.stem, "max_tokens": 400}
    with serving(smollm2_path, "--ctx", "512", "--parallel", "2") as (process, url):
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: httpx.get(f"{url}/health").status_code == 503)
            refused = httpx.post(f"{url}/v1/completions", json={**body, "stream": False})
            health = httpx.get(f"{url}/health").json()
            rest = [line for line in lines if line]
        assert process.wait(30) == 0
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert refused.json()["error"]["code"] == "shutting_down"
    assert health["status"] == "draining"
    assert rest[-1] == "data: [DONE]"
    assert '"finish_reason":"length"' in rest[-2]


def test_what_outlasts_the_drain_is_ended_with_an_error_and_the_exit_is_0(smollm2_path: Path) -> None:
    body = {**ENDLESS, "model": smollm2_path.stem}
    with serving(smollm2_path, "--drain", "0.2", "--parallel", "1") as (process, url):
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(signal.SIGINT)
            rest = [line for line in lines if line]
        assert process.wait(30) == 0
    assert json.loads(rest[-1].removeprefix("data: "))["error"]["code"] == "shutting_down"


def test_a_second_signal_ends_at_once(smollm2_path: Path) -> None:
    body = {**ENDLESS, "model": smollm2_path.stem}
    with (
        serving(smollm2_path, "--drain", "60", "--parallel", "1") as (process, url),
        httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as response,
    ):
        lines = response.iter_lines()  # kept: without it the client would leave
        next(lines)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(f"{url}/health").status_code == 503)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert time.monotonic() - began < 20  # the drain would take longer


def test_an_idle_server_with_idle_connections_goes_at_once(smollm2_path: Path) -> None:
    with serving(smollm2_path, "--ctx", "512", "--parallel", "1") as (process, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))), httpx.Client(base_url=url) as client:
            client.get("/health")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert time.monotonic() - began < 20  # the drain and the idle time-out would take longer


def test_a_taken_port_is_one_line_and_status_2(smollm2_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "verispec", "serve", str(smollm2_path), "--port", port],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        done.stderr == f"error: host, port: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    )


@pytest.mark.parametrize("keys", ["", "some-key-1234"])
def test_a_server_open_to_all_says_so(smollm2_path: Path, keys: str) -> None:
    environment = {"VERISPEC_API_KEYS": keys} if keys else {}
    arguments = ("--host", "0.0.0.0", "--ctx", "512", "--parallel", "1")
    with serving(smollm2_path, *arguments, **environment) as (process, url):
        port = url.rsplit(":", 1)[1]
        expected = 401 if keys else 200
        assert httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == expected
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert ("warning: anyone who can reach 0.0.0.0" in errors) == (not keys)
    assert "some-key" not in errors
