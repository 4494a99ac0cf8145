"""The lab against itself: experiments whose candidate is the control, on a real server, one after another.

Run as ``python -m benchmarks.lab_same --count 20 --lab FOLDER --output FILE``. Every experiment is a whole one, with
fresh servers; what it takes for an improvement is false. Two rounds, as each of them has, can hardly decide anything.
So longer experiments are put together of the same real lanes, ``--drawn`` of them: a coin says which lane of a round
plays the candidate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from verispec.bench.host import host_facts, load_average
from verispec.lab.decision import DecisionPlan, decide
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.experiment.run import run_experiment
from verispec.lab.experiment.spec import CONTROL, load_experiment, plan_of
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.lane_values import lane_values
from verispec.lab.statistics.proportions import Proportion

SPECIFICATION = Path(__file__).parent / "lab" / "same.toml"
FALSE = ("improvement", "promoted")
CANDIDATE = "candidate"
BLOCKS = 8
"""Rounds of an experiment that is put together, as many as a confirmation has."""

Pair = tuple[LaneValues, LaneValues]


def measure(ledger: Ledger, count: int) -> dict[str, Any]:
    """Runs ``count`` experiments and tells what each concluded."""
    verdicts = []
    for number in range(count):
        record = run_experiment(ledger, load_experiment(SPECIFICATION))
        (verdict,) = record["verdicts"].values()
        verdicts.append({"seconds": record["ended"] - record["began"], **verdict})
        print(f"{number + 1} of {count}: {record['verdict']}", file=sys.stderr, flush=True)
    kinds = Counter(verdict["verdict"] for verdict in verdicts)
    return {
        "experiments": count,
        "verdicts": dict(kinds),
        **_false(sum(kinds[kind] for kind in FALSE), count),
        "host": host_facts(),
        "load": load_average(),
        "each": verdicts,
    }


def drawn(ledger: Ledger, count: int, seed: int = 1) -> dict[str, Any]:
    """``count`` experiments of ``BLOCKS`` rounds, drawn from the ledger's own and decided after every round, as the lab
    does; one that calls an improvement at any round counts as false."""
    random = np.random.default_rng(seed)
    pairs, plan = list(_pairs(ledger)), _plan(ledger)
    last: Counter[str] = Counter()
    false = 0
    for _ in range(count):
        chosen = random.choice(len(pairs), BLOCKS, replace=False)
        control: list[LaneValues] = []
        candidate: list[LaneValues] = []
        called = []
        for block, index in enumerate(chosen):
            one, other = pairs[index] if random.integers(2) else pairs[index][::-1]
            control.append(replace(one, arm=CONTROL, block=str(block)))
            candidate.append(replace(other, arm=CANDIDATE, block=str(block)))
            called.append(decide(control, candidate, plan).verdict.value)
        false += any(verdict in FALSE for verdict in called)
        last[called[-1]] += 1
    lanes = {"rounds": BLOCKS, "rounds_to_draw_from": len(pairs), "seed": seed}
    return {"experiments": count, **lanes, "last_verdicts": dict(last), **_false(false, count)}


def _false(count: int, of: int) -> dict[str, Any]:
    upper = Proportion(count, of).upper()
    return {"false_improvements": count, "false_improvements_upper_bound": upper}


def _pairs(ledger: Ledger) -> Iterator[Pair]:
    """The two lanes of every round of such experiments, in the order in which they were run."""
    name = load_experiment(SPECIFICATION).name
    same = {record["experiment"] for _, record in ledger.records("experiment") if record["name"] == name}
    rounds: dict[tuple[str, str], list[LaneValues]] = {}
    for _, lane in ledger.records("lane"):
        if lane["experiment"] in same and lane["stage"] == "confirmation" and lane["valid"]:
            values = lane_values(lane, ledger.rows(lane), "rate_1_100")
            if values is not None:
                rounds.setdefault((lane["experiment"], values.block), []).append(values)
    yield from ((lanes[0], lanes[1]) for lanes in rounds.values() if len(lanes) == 2)


def _plan(ledger: Ledger) -> DecisionPlan:
    """That of the ledger's decisions."""
    _, decision = next(iter(ledger.records("decision")))
    return plan_of(decision["plan"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab_same", description=__doc__)
    parser.add_argument(
        "--count", type=int, default=20, help="experiments to run; 0: draw from those there are"
    )
    parser.add_argument("--drawn", type=int, default=2000, help="experiments to put together of their rounds")
    parser.add_argument("--lab", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    book = Ledger(arguments.lab)
    if arguments.count:
        result = measure(book, arguments.count)
    else:
        result = json.loads(arguments.output.read_text(encoding="utf-8"))
    result["drawn"] = drawn(book, arguments.drawn)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "each"}, indent=2))
