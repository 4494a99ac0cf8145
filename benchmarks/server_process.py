"""Servers as processes of their own, on free loopback ports: ours and llama.cpp's."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

START_SECONDS = 120.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02
SERVED_AS = "measured"
"""What requests call the model, whatever its file is called."""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that answers. ``log`` is what it has written so far, both streams."""

    process: subprocess.Popen[bytes]
    port: int
    log: IO[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def logged(self) -> str:
        """Everything in the log."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def get(self, path: str) -> bytes:
        """The body of an answer to GET."""
        with urllib.request.urlopen(self.url + path, timeout=STOP_SECONDS) as response:
            return bytes(response.read())

    def get_json(self, path: str) -> dict[str, Any]:
        return dict(json.loads(self.get(path)))


def verispec_command(model: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "verispec", "serve", model, "--alias", SERVED_AS, *arguments]


def llama_server_command(
    binary: str, model: str, context: int, slots: int, threads: int, arguments: Sequence[str]
) -> list[str]:
    """``context`` is what each of the ``slots`` has; the server divides what it is given among them.

    Without ``--cache-ram 0`` it would take the time to save each prompt for later.
    """
    sizes = ["-c", str(slots * context), "-np", str(slots), "-t", str(threads), "-tb", str(threads)]
    fixed = ["--cont-batching", "--cache-ram", "0", "--alias", SERVED_AS]
    return [binary, "-m", model, *sizes, *fixed, *arguments]


@contextmanager
def serving(command: Sequence[str]) -> Iterator[ServerProcess]:
    """Runs ``command`` with a free port until the block ends; RuntimeError when it does not become ready."""
    port = free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log
        )
        server = ServerProcess(process, port, log)
        try:
            _wait_until_ready(server)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_ready(server: ServerProcess) -> None:
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended while starting: {server.logged()[-400:].strip()}")
        try:
            server.get("/health")
        except OSError:  # not listening yet, or still loading
            time.sleep(POLL_SECONDS)
        else:
            return
    raise RuntimeError(f"the server was not ready after {START_SECONDS:g} seconds")
