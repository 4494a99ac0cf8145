"""llama-server as a peer: its n-gram speculation, over HTTP on this machine, a fresh server for every prompt.

A fresh one, because its ``ngram-mod`` keeps what earlier requests wrote. Times are the server's own, so that HTTP
costs it nothing.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import IO, Any

from verispec.bench.subject import DecodeRun, Writer
from verispec.errors import BackendError

START_SECONDS = 60.0
ANSWER_SECONDS = 600.0
POLL_SECONDS = 0.02


class LlamaServer(Writer):
    """One configuration of a llama-server binary. ``arguments`` are its own command line flags."""

    engine = "llama-server"

    def __init__(
        self, name: str, binary: str, model: str, context: int, threads: int, arguments: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.speculates = "--spec-type" in arguments
        self._arguments = list(arguments)
        fixed = ["-m", model, "-c", str(context), "-t", str(threads), "-tb", str(threads), "-np", "1"]
        self._command = [binary, *fixed, "--host", "127.0.0.1", *self._arguments]
        self._version = _version(binary)

    def describe(self) -> Mapping[str, Any]:
        return {"llama-server": self._version, "arguments": self._arguments}

    def decode(self, prompt: Sequence[int], max_tokens: int, end_tokens: Sequence[int]) -> DecodeRun:
        """The end tokens are the model file's own: they need not be given."""
        with tempfile.TemporaryFile() as log:
            port = _free_port()
            process = subprocess.Popen([*self._command, "--port", str(port)], stdout=log, stderr=log)
            try:
                address = f"http://127.0.0.1:{port}"
                self._wait_until_ready(process, address, log)
                return _decode_run(self._complete(address, prompt, max_tokens))
            finally:
                process.terminate()
                process.wait()

    def close(self) -> None:
        """Nothing runs between answers."""

    def _wait_until_ready(self, process: subprocess.Popen[bytes], address: str, log: IO[bytes]) -> None:
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit:
            if process.poll() is not None:
                raise BackendError(f"{self.name}: the server ended while starting: {_last_line(log)}")
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=START_SECONDS):
                    return
            except OSError:  # not listening yet, or still loading
                time.sleep(POLL_SECONDS)
        raise BackendError(f"{self.name}: the server was not ready after {START_SECONDS:g} seconds")

    def _complete(self, address: str, prompt: Sequence[int], max_tokens: int) -> dict[str, Any]:
        body = {
            "prompt": list(prompt),
            "n_predict": max_tokens,
            "samplers": ["top_k"],  # the cheapest way to the greatest logit
            "top_k": 1,
            "temperature": 0.0,
            "cache_prompt": False,
            "return_tokens": True,
        }
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/completion", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
                answer: dict[str, Any] = json.load(response)
        except OSError as error:
            raise BackendError(f"{self.name}: {error}") from error
        return answer


def _decode_run(answer: dict[str, Any]) -> DecodeRun:
    """The server's clock for the answer starts when its first token is there, but its count includes that token."""
    timings = answer["timings"]
    return DecodeRun(
        tokens=tuple(answer["tokens"]),
        counted=max(timings["predicted_n"] - 1, 0),
        seconds=timings["predicted_ms"] / 1e3,
        prompt_seconds=timings["prompt_ms"] / 1e3,
        drafted=timings.get("draft_n", 0),
        accepted=timings.get("draft_n_accepted", 0),
    )


def _version(binary: str) -> str:
    """What the binary says of itself, on one line. BackendError when it does not run."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=START_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(f"llama-server: {binary} does not run: {error}") from error
    if done.returncode:
        raise BackendError(
            f"llama-server: {binary} --version gave status {done.returncode}: {done.stderr[-200:]}"
        )
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    return "; ".join(line for line in lines if line.startswith(("version", "built")))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "nothing printed"
