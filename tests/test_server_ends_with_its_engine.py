"""An engine that has died takes the server along, with a word to whoever waits: a supervisor starts one that works."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from local_servers import wait_until
from verispec.engine.batching.scheduler import Scheduler
from verispec.engine.model import Model
from whole_server import whole_server

SECRET = "a most secret prompt"
BODY = {"model": "smollm2-135m", "prompt": SECRET, "max_tokens": 500, "ignore_eos": True}


def dying(scheduler: Scheduler) -> Any:
    raise RuntimeError(f"row 3 of {scheduler.line.jobs} {SECRET}")


@pytest.mark.parametrize("stream", [False, True])
def test_whoever_waits_is_told_and_the_server_ends(
    smollm2: Model, stream: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with whole_server(smollm2) as whole, whole.client() as client, caplog.at_level(logging.DEBUG):
        monkeypatch.setattr(Scheduler, "step", dying)
        response = client.post("/v1/completions", json={**BODY, "stream": stream, "n": 2})
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "engine_failed"
        assert int(response.headers["retry-after"]) > 0
        wait_until(lambda: not whole.server.started or whole.server.failed)
        wait_until(lambda: refused(whole.url))
    assert whole.server.failed
    assert "the engine failed: RuntimeError at" in caplog.text
    assert "in dying" in caplog.text
    assert SECRET not in caplog.text + response.text


def test_an_answer_that_has_begun_ends_with_the_word(smollm2: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with whole_server(smollm2) as whole, whole.client() as client:
        with client.stream("POST", "/v1/completions", json={**BODY, "stream": True}) as response:
            lines = response.iter_lines()
            next(lines)
            monkeypatch.setattr(Scheduler, "step", dying)
            rest = [line for line in lines if line]
        assert "engine_failed" in rest[-1]
        wait_until(lambda: refused(whole.url))


def test_until_it_is_gone_it_says_so(smollm2: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that come between the two are answered like those before, health says failed."""
    with whole_server(smollm2) as whole, whole.client() as client:
        monkeypatch.setattr(type(whole.server), "fail", lambda server: None)
        monkeypatch.setattr(Scheduler, "step", dying)
        for _ in range(2):
            response = client.post("/v1/completions", json=BODY)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "engine_failed")
        health = client.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "failed")


def test_the_process_ends_with_a_status_and_one_line(smollm2_path: Path) -> None:
    program = (
        "import sys, threading, httpx\n"
        "from verispec.cli import main\n"
        "from verispec.engine.batching.scheduler import Scheduler\n"
        "from verispec.serving.announcement import Announcement\n"
        f"def step(self): raise RuntimeError({SECRET!r})\n"
        "def ask(url):\n"
        f"    print(httpx.post(url + '/v1/completions', json={BODY!r}, timeout=60).status_code)\n"
        "def show(self):\n"
        "    Scheduler.step = step\n"
        "    threading.Thread(target=ask, args=(self.url,)).start()\n"
        "Announcement.show = show\n"
        f"sys.exit(main(['serve', {str(smollm2_path)!r}, '--port', '0', '--ctx', '512', '--parallel', '1', "
        "'--alias', 'smollm2-135m']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == "503\n"
    assert done.stderr.splitlines()[-1] == "error: the engine has failed; the log has the place"
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr


def refused(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 0
    except httpx.TransportError:
        return True
