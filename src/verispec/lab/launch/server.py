"""One server process: started for one lane, waited for, stopped with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import TracebackType

import psutil

from verispec.lab.client.fetch import fetch
from verispec.lab.faults import LaneFaultError
from verispec.lab.launch import become
from verispec.lab.launch.server_log import log_end
from verispec.lab.secrets import without
from verispec.lab.targets.target import Target

LANE_VARIABLE = "VERISPEC_LANE"
"""Set for a server to a mark of its lane: what it starts inherits it, also what leaves its process group."""
POLL_SECONDS = 0.02
READY_SECONDS = 5.0
STOP_SECONDS = 20.0
TAIL = 300
"""Characters of the log's end that a fault quotes."""


class ServerProcess:
    """A fresh server of ``target`` on ``device``, its output in the file ``log``. A context manager.

    Entering starts it and waits until it is ready; leaving stops the whole process group, and whatever escaped it.
    Raises LaneFaultError when it cannot be started, ends, or is not ready in time.
    """

    def __init__(self, target: Target, device: str, log: Path) -> None:
        self.target = target
        self.device = device
        self.log = log
        self.host = "127.0.0.1"
        self.port = free_port()
        self.command = target.command(self.host, self.port)
        self.variables = target.variables(self.host, self.port, device)
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process that was started; a wrapper may have become or started the server in it."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> ServerProcess:
        try:
            self._start()
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def exit_status(self) -> int | None:
        """None while it runs; negative for a signal."""
        return None if self._process is None else self._process.poll()

    def log_tail(self) -> str:
        """The last line of the log."""
        content = without(log_end(self.log), self.target.secrets())
        lines = content.decode(errors="replace").strip().splitlines()
        return lines[-1][-TAIL:] if lines else "nothing printed"

    def processes(self) -> list[psutil.Process]:
        """The process and all its descendants that are alive."""
        try:
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> None:
        """Ends the group: asked first, then killed, with all that left the group. Safe to call twice."""
        if self._process is None:
            return
        known = self.processes()
        self._signal_group(signal.SIGTERM)
        psutil.wait_procs(known, timeout=STOP_SECONDS)
        self._signal_group(signal.SIGKILL)
        escaped = marked_processes(self._mark)
        for process in escaped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(escaped, timeout=STOP_SECONDS)
        self._process.wait()
        self._process = None

    def _start(self) -> None:
        cores = ",".join(str(core) for core in self.target.cores(self.device)) or "-"
        guarded = [sys.executable, "-I", "-S", become.__file__, cores, *self.command]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                guarded,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.variables, LANE_VARIABLE: self._mark},
                start_new_session=True,
            )

    def _wait_until_ready(self) -> None:
        ready = self.target.profile.ready
        limit = time.monotonic() + ready.seconds
        while time.monotonic() < limit:
            if self.exit_status() is not None:
                status = self.exit_status()
                raise LaneFaultError("server-crashed-at-start", f"exit status {status}: {self.log_tail()}")
            if fetch(f"{self.url}{ready.path}", READY_SECONDS) is not None:
                return
            time.sleep(POLL_SECONDS)
        raise LaneFaultError("server-not-ready", f"not after {ready.seconds:g} s: {self.log_tail()}")

    def _signal_group(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):  # all of it is gone
            os.killpg(self._process.pid, number)


def marked_processes(mark: str) -> list[psutil.Process]:
    """Every process that carries a lane's mark in its environment, wherever it has gone."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(LANE_VARIABLE) == mark:
                found.append(process)
    return found


def free_port() -> int:
    """A port of the loopback address that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
