"""Runs one lane from a fresh server to its record in the ledger. Whatever goes wrong ends up there under a name."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from verispec.lab.activation import activations, unread_environment
from verispec.lab.client.clocks import Clocks
from verispec.lab.client.stream import StreamClient
from verispec.lab.faults import LaneFaultError
from verispec.lab.identity.collect import code_files, collect_identity, missing_fields
from verispec.lab.identity.compare import mismatches
from verispec.lab.identity.machine import load_now
from verispec.lab.identity.report import ServerReport
from verispec.lab.lane.derived import derived
from verispec.lab.lane.questions import ask_canaries, ask_prompts, served_model, wake
from verispec.lab.lane.request import LaneRequest
from verispec.lab.launch.server import ServerProcess
from verispec.lab.launch.server_log import kept_log
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import DiskFullError
from verispec.lab.metrics.summary import pass_totals

Record = dict[str, Any]
DEATH_SECONDS = 0.5
Progress = Callable[[int, int], None]
LaneRunner = Callable[[Ledger, LaneRequest, Progress], tuple[str, Record]]
"""Runs one lane and gives its digest and record, which are then in the ledger: ``run_lane``, or something around it."""


def run_lane(
    ledger: Ledger, request: LaneRequest, progress: Progress | None = None, clocks: Clocks | None = None
) -> tuple[str, Record]:
    """Digest and record of the lane, which is in the ledger when this returns.

    Raises DiskFullError when even that a lane failed could only be written into the reserve, and whatever interrupts it
    (Ctrl-C), after the record is written.
    """
    ledger.add({"kind": "lane-begun", **request.place(), **request.plan(), "began": time.time()})
    run = LaneRun(ledger, request, progress or (lambda done, total: None), clocks or Clocks())
    try:
        run.measure()
    except LaneFaultError as fault:
        run.fail(fault)
    except DiskFullError as error:
        run.fail(LaneFaultError("disk-full", str(error)))
        run.finish()
        raise
    except Exception as error:
        run.fail(LaneFaultError("failed", f"{type(error).__name__}: {error}"))
    except BaseException:
        run.fail(LaneFaultError("interrupted", "it was stopped by hand"))
        run.finish()
        raise
    return run.finish()


class LaneRun:
    """The state of one lane while it runs: everything that was seen so far."""

    def __init__(self, ledger: Ledger, request: LaneRequest, progress: Progress, clocks: Clocks) -> None:
        self._ledger = ledger
        self._request = request
        self._progress = progress
        self._clocks = clocks
        self._rows: list[Record] = []
        self._seen: Record = {
            "kind": "lane",
            **request.place(),
            **request.plan(),
            "began": time.time(),
            "faults": [],
            "rows": [],
            "canaries": [],
            "identity": None,
            "identity_missing": [],
            "identity_mismatches": [],
            "activation": [],
            "metrics_at_start": {},
            "log": None,
        }

    def fail(self, fault: LaneFaultError) -> None:
        self._seen["faults"].append(fault.record())

    def measure(self) -> None:
        """Starts the server, checks it, asks, stops it. What is seen on the way is kept."""
        load = load_now()
        with tempfile.TemporaryDirectory(prefix="verispec-lane-") as folder:
            log = Path(folder) / "server.log"
            server = ServerProcess(self._request.target, self._request.device, log)
            try:
                with server:
                    self._ask_all(server, load)
            finally:
                self._keep_log(log)

    def finish(self) -> tuple[str, Record]:
        """Derives what follows from what was seen, and writes the record."""
        record = {**self._seen, "ended": time.time()}
        record |= derived(record, self._rows)
        return self._ledger.add_at_last(record), record

    def _ask_all(self, server: ServerProcess, load: list[float]) -> None:
        target = self._request.target
        report = ServerReport(target.profile, server.url, server.log, target.binary)
        client = StreamClient(
            server.url,
            target.profile.endpoint,
            target.silence_seconds,
            target.answer_seconds,
            self._clocks,
        )
        at_start = report.metrics()
        self._seen["metrics_at_start"] = {name: at_start.get(name) for name in target.profile.fresh}
        model = target.served_name or served_model(server.url, target.model)
        if target.profile.ready.wake:
            wake(self._request, model, client)
        if not self._identify(server, report, load):
            return
        try:
            self._seen["canaries"] = ask_canaries(self._request, model, client)
            if all(one["passed"] == one["asked"] for one in self._seen["canaries"]):
                self._ask_prompts(model, client, report)
        except LaneFaultError as fault:
            self.fail(fault)
        if self._died(server):
            detail = f"exit status {server.exit_status()}: {server.log_tail()}"
            self.fail(LaneFaultError("server-died", detail))
            return
        self._prove(report, at_start)

    def _identify(self, server: ServerProcess, report: ServerReport, load: list[float]) -> bool:
        """Whether what runs is what was declared; when not, timing it would be a waste."""
        target = self._request.target
        report.read_options()
        identity, process = collect_identity(target, server, report, load)
        self._seen["identity"] = identity
        if process is not None:
            self._seen["identity_mismatches"] = mismatches(target, server, identity, process)
            unread = unread_environment(target, code_files(identity))
            self._seen["activation"] = [one.record() for one in unread]
        self._seen["identity_missing"] = missing_fields(identity, target)
        return not any(self._seen[name] for name in ("identity_missing", "identity_mismatches", "activation"))

    def _ask_prompts(self, model: str, client: StreamClient, report: ServerReport) -> None:
        total = len(self._request.suite.prompts)
        self._progress(0, total)
        for row in ask_prompts(self._request, model, client, report):
            self._seen["rows"].append(self._ledger.add(row))
            self._rows.append(row)
            self._progress(len(self._rows), total)

    def _prove(self, report: ServerReport, at_start: dict[str, float]) -> None:
        """What every knob has to show for itself, now that the server has worked."""
        report.read_options()
        moved = {name: value - at_start.get(name, 0.0) for name, value in report.metrics().items()}
        counts = pass_totals(self._rows) or {}
        proofs = activations(self._request.target, report, counts, moved, self._request.shown)
        self._seen["activation"] = [one.record() for one in proofs]

    def _died(self, server: ServerProcess) -> bool:
        """Whether the process has ended; a connection may break a moment before that shows."""
        broken = bool(self._seen["faults"]) or any(row["fault"] for row in self._rows)
        limit = time.monotonic() + (DEATH_SECONDS if broken else 0.0)
        while server.exit_status() is None and time.monotonic() < limit:
            time.sleep(0.01)
        return server.exit_status() is not None

    def _keep_log(self, log: Path) -> None:
        self._seen["log"] = self._ledger.add_log(kept_log(log, self._request.target.secrets()))
