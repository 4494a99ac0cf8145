"""``python -m benchmarks``: every measurement that the project states, from one command, into ``benchmarks/results``.

Takes about half an hour on a quiet two-core machine, less with ``--quick``. Peers are measured where they are found;
see ``verispec bench peers --help`` for how to name them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import busy_core, python_share
from benchmarks.make_q8_0 import q8_0_of

from verispec.artifacts.pull import catalog_model, pull
from verispec.artifacts.store import Store
from verispec.cli import main as verispec

RESULTS = Path(__file__).parent / "results"
MODELS = ("smollm2-135m", "smollm2-135m-q8_0", "gemma3-270m")


def prepare() -> None:
    """Fetches the two models and derives the Q8_0 one."""
    store = Store()
    for name in ("smollm2-135m", "gemma3-270m"):
        if not store.has_named(name):
            pull(catalog_model(name), store)
    q8_0_of("smollm2-135m")


def plan(peers: Sequence[str], quick: bool) -> list[list[str]]:
    """The commands, each writing one result."""
    repeats, turns = ("10", "2") if quick else ("50", "5")
    commands = []
    for model in MODELS:
        for context in (256, 1024):
            output = str(RESULTS / f"pass-{model}-{context}.json")
            commands.append(
                ["bench", "pass", model, "--context", str(context), "--repeats", repeats, "--output", output]
            )
        output, plot = (str(RESULTS / f"peers-{model}.{kind}") for kind in ("json", "png"))
        suite = "none" if model == "gemma3-270m" else "copy-heavy-12"
        commands.append(
            [
                "bench",
                "peers",
                model,
                "--suite",
                suite,
                "--turns",
                turns,
                "--output",
                output,
                "--plot",
                plot,
                *peers,
            ]
        )
    for model in MODELS[:2]:
        for suite in ("copy-heavy-12", "chat-12"):
            output = str(RESULTS / f"decode-{model}-{suite}.json")
            commands.append(
                [
                    "bench",
                    "decode",
                    model,
                    "--suite",
                    suite,
                    "--repeats",
                    "1" if quick else "3",
                    "--output",
                    output,
                ]
            )
    output, plot = (str(RESULTS / f"lab-simulations.{kind}") for kind in ("json", "png"))
    commands.append(["lab", "simulate", "--metrics", "median,mean", "--output", output, "--plot", plot])
    return commands


def run(peers: Sequence[str], quick: bool) -> int:
    """Runs everything; the number of commands that failed."""
    RESULTS.mkdir(exist_ok=True)
    prepare()
    failed = 0
    for command in plan(peers, quick):
        print("verispec", " ".join(command), flush=True)
        failed += verispec(command) != 0
    _write("busy-core", {model: busy_core.measure(model) for model in MODELS[:1]})
    _write("python-share", python_share.measure(MODELS[0]))
    return failed


def _write(name: str, report: dict[str, Any]) -> None:
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("peers", nargs="*", help="passed on to `verispec bench peers`, after --")
    arguments = parser.parse_args()
    raise SystemExit(min(run(arguments.peers, arguments.quick), 1))
