"""The lab against itself: experiments whose candidate is the control, on a real server, one after another.

Run as ``python -m benchmarks.lab_same --count 20 --lab FOLDER --output FILE``. Every experiment is a whole one, with
fresh servers; what it takes for an improvement is false.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from verispec.bench.host import host_facts, load_average
from verispec.lab.experiment.run import run_experiment
from verispec.lab.experiment.spec import load_experiment
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.statistics.proportions import Proportion

SPECIFICATION = Path(__file__).parent / "lab" / "same.toml"
FALSE = ("improvement", "promoted")


def measure(ledger: Ledger, count: int) -> dict[str, Any]:
    verdicts = []
    for number in range(count):
        record = run_experiment(ledger, load_experiment(SPECIFICATION))
        (verdict,) = record["verdicts"].values()
        verdicts.append({"seconds": record["ended"] - record["began"], **verdict})
        print(f"{number + 1} of {count}: {record['verdict']}", file=sys.stderr, flush=True)
    kinds = Counter(verdict["verdict"] for verdict in verdicts)
    false = sum(kinds[kind] for kind in FALSE)
    return {
        "experiments": count,
        "verdicts": dict(kinds),
        "false_improvements": false,
        "false_improvements_upper_bound": Proportion(false, count).upper(),
        "host": host_facts(),
        "load": load_average(),
        "each": verdicts,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab_same", description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--lab", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    result = measure(Ledger(arguments.lab), arguments.count)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "each"}, indent=2))
