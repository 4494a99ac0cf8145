"""A long time among bad company: ``verispec serve`` under hostile and honest clients, watched from outside.

Run as ``python -m benchmarks.server_soak [--seconds 1200]``. The server is a process of its own with a small prefix
cache, so that it is full before memory is first looked at. Honest clients compare every answer with the one that the
server gave alone. Prints and writes JSON; ends with status 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from benchmarks.server_abuse import ABUSES, Address
from benchmarks.server_honest import Tally, ask, behave, questions
from benchmarks.server_process import ServerProcess, serving, verispec_command

from verispec.bench.host import host_facts, load_average

MEGABYTE = 1 << 20
TOLERANCE = 48 * MEGABYTE
"""How much more memory the server may hold after the soak than after its warm-up."""
OPTIONS = (
    "--ctx", "1024", "--parallel", "4", "--queue", "24", "--prefix-cache", "8", "--receipts", "10",
    "--header-timeout", "3", "--body-timeout", "3", "--write-timeout", "3", "--keep-alive", "3",
)  # fmt: skip
HONEST, HOSTILE = 3, 5
"""Clients at the same time."""
SETTLE_SECONDS = 120.0
WARM_SHARE = 0.25
"""Of the whole time, for buffers, caches and the allocator's pools to grow to their size."""


def soak(model: str, seconds: float, seed: int = 0) -> dict[str, Any]:
    """Starts a server, treats it badly for ``seconds``, and reports what it looks like afterwards."""
    with serving(verispec_command(model, *OPTIONS)) as server:
        known = [(question, ask(server.url, question)) for question in questions()]
        tally, abuses = Tally(), Counter[str]()
        samples: list[dict[str, float]] = []
        started = time.monotonic()
        crowd(server, known, WARM_SHARE * seconds, f"{seed} warm-up", tally, abuses)
        settle(server)
        before = resources(server)
        watch = Watch(server, samples, started)
        crowd(server, known, (1 - WARM_SHARE) * seconds, f"{seed} soak", tally, abuses)
        watch.stop()
        settle(server)
        after = resources(server)
        for question, expected in known:
            assert ask(server.url, question) == expected
        return {
            "seconds": round(time.monotonic() - started, 1),
            "honest": tally.as_dict(),
            "hostile": dict(sorted(abuses.items())),
            "before": before,
            "after": after,
            "grown_bytes": after["rss_bytes"] - before["rss_bytes"],
            "tolerance_bytes": TOLERANCE,
            "sequences_free": sequences_free(server),
            "server_failures": failures(server),
            "samples": samples,
        }


def crowd(
    server: ServerProcess, known: list[Any], seconds: float, seed: str, tally: Tally, abuses: Counter[str]
) -> None:
    """Honest and hostile clients, all at once, for ``seconds``."""
    until = time.monotonic() + seconds
    chances = [random.Random(f"{seed} client {number}") for number in range(HONEST + HOSTILE)]
    jobs: list[Callable[[], None]] = [
        lambda chance=chance: behave(server.url, known, until, chance, tally) for chance in chances[:HONEST]
    ]
    address = ("127.0.0.1", server.port)
    jobs += [lambda chance=chance: abuse(address, until, chance, abuses) for chance in chances[HONEST:]]
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def abuse(address: Address, until: float, chance: random.Random, counted: Counter[str]) -> None:
    """One hostile client after another; how each was answered is counted by kind and status."""
    while time.monotonic() < until:
        kind = chance.choice(ABUSES)
        try:
            status = kind(address, chance)
        except OSError:  # cut off while it still spoke
            status = 0
        counted[f"{kind.__name__} {status}"] += 1
        time.sleep(chance.uniform(0.0, 0.2))


def settle(server: ServerProcess) -> None:
    """Waits until no request and no connection but this one is left."""
    limit = time.monotonic() + SETTLE_SECONDS
    idle = {"running": 0, "waiting": 0}
    process = psutil.Process(server.process.pid)
    while server.get_json("/health")["requests"] != idle or _established(process) > 1:
        if time.monotonic() > limit:
            raise RuntimeError(
                f"still busy: {server.get_json('/health')['requests']}, {_established(process)}"
            )
        time.sleep(0.1)


def _established(process: psutil.Process) -> int:
    return sum(connection.status != psutil.CONN_LISTEN for connection in process.net_connections("tcp"))


def resources(server: ServerProcess) -> dict[str, int]:
    process = psutil.Process(server.process.pid)
    return {
        "rss_bytes": process.memory_info().rss,
        "files": process.num_fds(),
        "threads": process.num_threads(),
    }


class Watch:
    """Samples the server's memory every few seconds until it is stopped."""

    def __init__(self, server: ServerProcess, samples: list[dict[str, float]], started: float) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server, samples, started))
        self._thread.start()

    def _run(self, server: ServerProcess, samples: list[dict[str, float]], started: float) -> None:
        while not self._over.wait(5.0):
            rss = psutil.Process(server.process.pid).memory_info().rss
            samples.append({"seconds": round(time.monotonic() - started, 1), "rss_bytes": rss})

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def sequences_free(server: ServerProcess) -> int:
    """How many answers can be written at once; one that was never given back is missing here."""
    parallel = int(server.get_json("/health")["options"]["parallel"])
    question = {"prompt": "one two", "n": parallel, "max_tokens": 400, "ignore_eos": True, "seed": 1}
    asking = threading.Thread(target=ask, args=(server.url, question))
    asking.start()
    most = 0
    while asking.is_alive() and most < parallel:
        most = max(most, int(server.get_json("/health")["requests"]["running"]))
    asking.join()
    return most


def failures(server: ServerProcess) -> list[str]:
    """Answers with status 500, and lines of the log that tell of a failure inside."""
    counted = [
        line
        for line in server.get("/metrics").decode().splitlines()
        if line.startswith("verispec:http_responses_total{") and 'status="500"' in line
    ]
    return counted + [
        line for line in server.logged().splitlines() if " failed: " in line or "Traceback" in line
    ]


def broken_promises(report: dict[str, Any]) -> list[str]:
    """What of it should not be; empty when the server bore everything."""
    honest, before, after = report["honest"], report["before"], report["after"]
    parallel = int(OPTIONS[OPTIONS.index("--parallel") + 1])
    lost = honest["asked"] - honest["right"] - honest["refused"] - len(honest["wrong"])
    checks = {
        "honest answers are right": not honest["wrong"],
        "no request is lost": lost == 0,
        "honest clients are served": honest["right"] > honest["asked"] / 4,
        "memory is back": report["grown_bytes"] <= TOLERANCE,
        "files are closed": after["files"] <= before["files"] + 2,
        "threads do not grow": after["threads"] <= before["threads"] + 8,
        "every sequence is free": report["sequences_free"] == parallel,
        "nothing failed inside": not report["server_failures"],
    }
    return [promise for promise, holds in checks.items() if not holds]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_soak", description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "server-soak.json")
    given = parser.parse_args()
    started_load = load_average()
    report = soak(given.model, given.seconds)
    broken = broken_promises(report)
    report |= {
        "model": given.model,
        "options": OPTIONS,
        "clients": {"honest": HONEST, "hostile": HOSTILE},
        "broken_promises": broken,
        "host": host_facts(),
        "load_average_before": started_load,
        "load_average_after": load_average(),
    }
    given.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in report.items() if name != "samples"}, indent=1))
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
