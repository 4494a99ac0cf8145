"""``verispec serve --ray``: replicas in processes of their own, which Ray Serve starts, restarts and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from local_servers import wait_until
from verispec.engine.model import Model
from verispec.errors import OptionError
from verispec.serving.settings import ServerSettings

STORY = "Once upon a time there was a king who had three daughters. " * 8
LONG = {"prompt": "one two", "temperature": 0, "ignore_eos": True, "max_tokens": 450, "stream": True}


@dataclass(frozen=True)
class RayServer:
    process: subprocess.Popen[str]
    url: str
    folder: Path

    def complete(self, prompt: str, **more: Any) -> dict[str, Any]:
        body = {"model": "smollm2-135m", "prompt": prompt, **more}
        response = httpx.post(f"{self.url}/v1/completions", json=body, timeout=60)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def replicas(self) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = httpx.get(f"{self.url}/health", timeout=60).json()["replicas"]
        return shown

    def metric(self, name: str) -> list[float]:
        """One value for each replica."""
        lines = httpx.get(f"{self.url}/metrics", timeout=60).text.splitlines()
        return [float(line.split(" ")[1]) for line in lines if line.startswith(f"verispec:{name}{{replica=")]


@pytest.fixture(scope="module")
def server(smollm2_path: Path) -> Iterator[RayServer]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "verispec", "serve", "smollm2-135m", "--port", "0", "--json"]
        command += ["--ray", "--replicas", "2", "--threads", "1", "--ctx", "512", "--parallel", "2"]
        with (Path(folder) / "errors").open("w") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "TMPDIR": folder},
            )
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, (Path(folder) / "errors").read_text()
                yield RayServer(process, json.loads(line)["url"], Path(folder))
            finally:
                process.kill()
                process.communicate()


def test_both_processes_give_the_text_of_the_model_alone_and_a_prefix_finds_its_replica(
    server: RayServer, smollm2: Model
) -> None:
    alone = smollm2.generate("The sea is", max_tokens=16, seed=5, temperature=0.9)
    request = {"max_tokens": 16, "seed": 5, "temperature": 0.9, "logprobs": 1}
    answers = [server.complete("The sea is", **request)["choices"] for _ in range(2)]
    assert len({one["pid"] for one in server.replicas()} - {server.process.pid}) == 2
    assert min(server.metric("generation_tokens_total")) == 16  # each has answered once
    assert answers[0] == answers[1]
    assert answers[0][0]["text"] == alone.text
    whole = [server.complete(STORY + name, temperature=0, max_tokens=8) for name in ("Anna", "Anna", "Bert")]
    assert whole[0]["choices"] == whole[1]["choices"]
    hits = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in whole]
    assert hits[0] == 0
    assert min(hits[1:]) > 64
    assert sorted(server.metric("prefix_cache_hits_total")) == [0, sum(hits)]


def test_everything_listens_on_the_loopback_address_alone(server: RayServer) -> None:
    family = [server.process.pid, *(one.pid for one in psutil.Process(server.process.pid).children(True))]
    listening = [
        one.laddr.ip
        for pid in family
        for one in psutil.Process(pid).net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    ]
    assert len(listening) > 4
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_a_killed_replica_ends_its_answers_others_go_on_and_it_comes_back(server: RayServer) -> None:
    body = {"model": "smollm2-135m", **LONG}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        running = server.metric("num_requests_running").index(1)
        killed = server.replicas()[running]["pid"]
        os.kill(killed, signal.SIGKILL)
        rest = [line for line in lines if line]
    assert json.loads(rest[-1].removeprefix("data: "))["error"]["code"] == "replica_lost"
    answers = [server.complete("The sea is", max_tokens=4, temperature=0) for _ in range(3)]
    assert all(one["choices"] == answers[0]["choices"] for one in answers)
    assert server.replicas()[running]["status"].startswith("lost")
    assert server.replicas()[1 - running]["status"] == "ok"
    wait_until(lambda: server.replicas()[running]["status"] == "ok", 120)
    assert server.replicas()[running]["pid"] != killed
    again = [server.complete("The sea is", max_tokens=4, temperature=0) for _ in range(2)]
    assert all(one["choices"] == answers[0]["choices"] for one in again)
    assert min(server.metric("generation_tokens_total")) >= 4


def test_a_signal_lets_running_answers_finish_and_leaves_nothing_behind(server: RayServer) -> None:
    family = psutil.Process(server.process.pid).children(True)
    body = {"model": "smollm2-135m", **LONG, "max_tokens": 40}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(f"{server.url}/health", timeout=60).status_code == 503)
        refused = httpx.post(f"{server.url}/v1/completions", json=body, timeout=60)
        rest = [line for line in lines if line]
    assert refused.json()["error"]["code"] == "shutting_down"
    assert rest[-1] == "data: [DONE]"
    assert server.process.wait(60) == 0
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    assert [one.name for one in server.folder.iterdir()] == ["errors"]


@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "127.0.0.1", "127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_one_line_and_status_2(address: str) -> None:
    command = [sys.executable, "-m", "verispec", "serve", "smollm2-135m", "--port", "0", "--ray"]
    done = subprocess.run([*command, "--ray-address", address], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ray_address: ")
    assert done.stderr.count("\n") == 1


def test_without_ray_the_error_says_how_to_get_it() -> None:
    program = (
        "import sys; sys.modules['ray'] = None; from verispec.cli import main; "
        "sys.exit(main(['serve', 'smollm2-135m', '--ray', '--port', '0']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "pip install 'verispec[ray]'" in done.stderr


@pytest.mark.parametrize("given", [{"replicas": 2}, {"ray_address": "auto"}])
def test_options_of_replicas_without_ray_are_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(given))}: only --ray reads it"):
        ServerSettings.of(given)
