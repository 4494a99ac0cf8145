"""The same prompts alone and in company: what others cost an answer, what all get together, what changes."""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from verispec.bench.suites import Suite, SuitePrompt
from verispec.lab.activation import Activation, activations, unread_environment
from verispec.lab.client.rows import raw_row, read_counts
from verispec.lab.client.stream import StreamClient
from verispec.lab.faults import LaneFaultError
from verispec.lab.gate.rules import knobs_read, nothing_cached
from verispec.lab.identity.collect import code_files, collect_identity, missing_fields
from verispec.lab.identity.compare import mismatches
from verispec.lab.identity.machine import load_now
from verispec.lab.identity.report import ServerReport
from verispec.lab.lane.device_claims import claimed
from verispec.lab.lane.questions import served_model
from verispec.lab.launch.server import ServerProcess
from verispec.lab.launch.server_log import kept_log
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.outputs import compare_lanes, exactness
from verispec.lab.metrics.rates import row_metrics
from verispec.lab.targets.target import Target

Record = dict[str, Any]


def measure_company(
    ledger: Ledger, target: Target, device: str, suite: Suite, cap: int, widths: Sequence[int]
) -> Record:
    """The record of one fresh server a width, at which so many requests are open at once; 1 comes first in any case.

    Rates in company are of that company: they are kept by width and compared with nothing else.
    """
    ledger.adopt()
    number = uuid.uuid4().hex[:10]
    began = time.time()
    measured = []
    for width in sorted({1, *widths}):
        with claimed(device):
            measured.append(_measure(ledger, target, device, suite, cap, width))
    record = {
        "kind": "company",
        "experiment": number,
        "name": target.name,
        "target": target.record(),
        "device": device,
        "suite": suite.identity(),
        "suite_name": suite.name,
        "max_tokens": cap,
        "began": began,
        "ended": time.time(),
        "widths": derived_widths(ledger, measured),
    }
    ledger.add(record)
    return record


def derived_widths(ledger: Ledger, measured: Sequence[Record]) -> list[Record]:
    """What was measured at each width with what follows from its rows; the first width is 1."""
    return [_summary(ledger, one, measured[0]) for one in measured]


def _measure(ledger: Ledger, target: Target, device: str, suite: Suite, cap: int, width: int) -> Record:
    """Digests of the rows at one width, and of the server's log; ``fault`` when there could be no rows."""
    seen: Record = {"width": width, "rows": [], "fault": None, "mismatches": [], "identity": None}
    with tempfile.TemporaryDirectory(prefix="verispec-company-") as folder:
        log = Path(folder) / "server.log"
        try:
            load = load_now()
            with ServerProcess(target, device, log) as server:
                report = ServerReport(target.profile, server.url, server.log, target.binary)
                before = report.metrics()
                rows = _ask_all(target, server.url, suite, cap, width)
                seen |= _observed(target, server, report, load, rows, before)
            seen["rows"] = [ledger.add(row) for row in rows]
        except LaneFaultError as fault:
            seen["fault"] = fault.record()
        seen["log"] = ledger.add_log(kept_log(log, target.secrets()))
    return seen


def _observed(
    target: Target,
    server: ServerProcess,
    report: ServerReport,
    load: list[float],
    rows: Sequence[Record],
    before: Mapping[str, float],
) -> Record:
    """What ran, how it differs from what was declared (what a lane must know and this does not is a mismatch), and what
    each knob shows for itself."""
    report.read_options()
    identity, process = collect_identity(target, server, report, load)
    wrong = [f"missing: {name}" for name in missing_fields(identity, target)]
    proofs: list[Activation] = []
    if process is not None:
        wrong += mismatches(target, server, identity, process)
        proofs += unread_environment(target, code_files(identity))
    after = report.metrics()
    moved = {name: value - before.get(name, 0.0) for name, value in after.items()}
    proofs += activations(target, report, _counted(target, rows, before, after), moved, {})
    return {
        "identity": identity,
        "mismatches": wrong,
        "activation": [one.record() for one in proofs],
    }


def _counted(
    target: Target, rows: Sequence[Record], before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, float]:
    """Passes, drafted and accepted tokens of all answers: the server's metrics cannot tell one from another here."""
    sources = target.profile.counts
    whole = {name: one for name, one in sources.items() if one.place == "metrics"}
    found, _ = read_counts({}, whole, before, after)
    each = {name: one for name, one in sources.items() if name not in whole}
    for row in rows:
        for name, value in read_counts(row, each, {}, {})[0].items():
            found[name] = found.get(name, 0.0) + value
    return found


def _ask_all(target: Target, url: str, suite: Suite, cap: int, width: int) -> list[Record]:
    model = target.served_name or served_model(url, target.model)
    client = StreamClient(url, target.profile.endpoint, target.silence_seconds, target.answer_seconds)
    if target.profile.ready.wake:  # it loads its model with the first request, which is nobody's to pay for
        client.ask({"model": model, "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 1})
    settings = {"max_tokens": cap, "temperature": 0.0, **target.profile.request, **target.request}

    def ask(order: int, prompt: SuitePrompt) -> Record:
        body = {"model": model, "messages": [{"role": "user", "content": prompt.text}], **settings}
        return {**raw_row(prompt, order, body, client.ask(body)), "width": width}

    with ThreadPoolExecutor(width) as pool:
        return list(pool.map(ask, range(len(suite.prompts)), suite.prompts))


def _summary(ledger: Ledger, measured: Record, alone: Record) -> Record:
    rows = [ledger.get(digest) for digest in measured["rows"]]
    faults = [
        f"{row['prompt']}: {row['fault']['name']}: {row['fault']['detail']}" for row in rows if row["fault"]
    ]
    if measured["fault"]:
        faults.append(f"{measured['fault']['name']}: {measured['fault']['detail']}")
    faults += [f"identity-as-declared: {one}" for one in measured["mismatches"]]
    sound = [row for row in rows if row["fault"] is None]
    if "activation" in measured:  # of every width since knobs and caches are looked at here too
        rules = {"nothing-cached": nothing_cached(measured, rows), "knobs-read": knobs_read(measured, rows)}
        faults += [f"{name}: {wrong}" for name, wrong in rules.items() if wrong]
    outputs = compare_lanes(sound, [ledger.get(digest) for digest in alone["rows"]])
    return {
        **measured,
        "faults": faults,
        "valid": bool(rows) and not faults,
        **_rates(sound),
        "output_of_solo": exactness(outputs),
        "differing": [one.prompt for one in outputs if one.position is not None],
    }


def _rates(rows: Sequence[Mapping[str, Any]]) -> Record:
    """``together`` is all tokens over the time from the first request to the last end; the others are medians over
    answers: ``each`` is the steady rate, ``first_token`` seconds to the first token."""
    metrics = [row_metrics(row) for row in rows]
    steady = [one.full for one in metrics if one.full]
    first = [one.ttft for one in metrics if one.ttft is not None]
    if not steady or not first:
        return {"together": None, "each": None, "first_token": None, "first_token_max": None}
    began = min(row["began"]["monotonic"] for row in rows)
    ended = max(row["ended"]["monotonic"] for row in rows)
    return {
        "together": sum(one.tokens for one in metrics) / ((ended - began) / 1e9),
        "each": statistics.median(steady),
        "first_token": statistics.median(first),
        "first_token_max": max(first),
    }
