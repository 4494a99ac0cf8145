"""External drafters held against ``off``, token for token: every kind, width and temperature, alone and in a chain.

Run as ``python -m benchmarks.drafter_parity --draft eagle3=PATH --draft dspark=PATH --output FILE``. Each artifact
drafts 1, 3, 5 and 7 tokens a round, greedy, at T = 0.8 and at T = 1, alone and behind ``suffix``, for every prompt.
What is compared with is ``off`` by itself, one request at a time; the drafted answers are written in company, over
whatever the prefix cache holds, as a server would. Nothing is timed, so other work may run.

``FILE.jsonl`` is added to as answers come: the same command goes on where it was killed, with further artifacts too.
Exit status 1: an answer differs, a drafter faulted, or a cell had no proposal of its width by the artifact itself and
so shows nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.drafter_arguments import ask_for_output, program
from benchmarks.drafter_journal import Journal
from benchmarks.drafter_requests import Draft, HeldOut, checked_output, held_out, in_one_line, prompts_sha256

from verispec.bench.conditions import conditions
from verispec.cli.bench.report_file import write_report
from verispec.cli.output import print_table
from verispec.cli.progress import CountBar
from verispec.conformance.company import run_together
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import OptionError

WIDTHS = (1, 3, 5, 7)
TEMPERATURES = (0.0, 0.8, 1.0)
FEWEST_TOKENS = max(WIDTHS) + 2
"""A first round without a proposal, and one with room for the widest and the target's own token behind it."""
SEED = 29
CONTEXT = 1024
TOGETHER = 8
"""Requests in a pass."""
CHUNK = 20
"""Prompts between two lines of the journal."""
SHOWN = 5
"""Differences that the result lists of a cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination, on every prompt."""

    draft: Draft
    sha256: str
    chained: bool
    width: int
    temperature: float

    @property
    def key(self) -> list[Any]:
        """What it is called in the journal."""
        return [self.draft.kind, self.sha256, self.chained, self.width, self.temperature]

    def options(self) -> dict[str, Any]:
        return self.draft.options(self.width, self.chained)


@dataclass(frozen=True, slots=True)
class Parity:
    """What a run is over."""

    model: Model
    prompts: Sequence[HeldOut]
    drafts: Sequence[Draft]
    tokens: int

    def identity(self) -> dict[str, Any]:
        """What makes answers of another run the same answers."""
        return {
            "model": dict(self.model.artifacts),
            "runtime": self.model.backend.identity(),
            "prompts_sha256": prompts_sha256(self.prompts),
            "tokens": self.tokens,
        }

    def cells(self, temperature: float) -> list[Cell]:
        digests = {draft: draft.describe()["sha256"] for draft in self.drafts}
        combined = product(self.drafts, (False, True), WIDTHS)
        return [
            Cell(draft, digests[draft], chained, width, temperature) for draft, chained, width in combined
        ]

    def chunks(self) -> Iterator[tuple[int, Sequence[HeldOut]]]:
        for begin in range(0, len(self.prompts), CHUNK):
            yield begin, self.prompts[begin : begin + CHUNK]

    def sampling(self, temperature: float, index: int) -> dict[str, Any]:
        """Sampling of the prompt ``index``; every one has a seed of its own."""
        return {"temperature": temperature, "seed": SEED + index, "max_tokens": self.tokens}


def run(parity: Parity, journal: Journal) -> None:
    """Writes every answer that the journal does not have."""
    scheduler = Scheduler(parity.model, SchedulerLimits(parallel=TOGETHER, queue=CHUNK))
    known = {_key(entry): entry for entry in journal.entries}
    total = len(parity.prompts) * len(TEMPERATURES) * len(parity.cells(0.0))
    done = 0
    with CountBar("answers") as bar:
        for (begin, prompts), temperature in product(parity.chunks(), TEMPERATURES):
            off = known.get(_key({"off": temperature, "begin": begin}))
            if off is None:
                off = {"off": temperature, "begin": begin}
                off["answers"] = write_off(parity, begin, prompts, temperature)
                journal.add(off)
            for cell in turned(parity.cells(temperature), begin // CHUNK):
                place = {"cell": cell.key, "begin": begin}
                if _key(place) not in known:
                    journal.add(place | write_cell(parity, scheduler, cell, begin, prompts, off["answers"]))
                done += len(prompts)
                bar.update(done, total)


def turned(cells: list[Cell], by: int) -> list[Cell]:
    """Another one first each time, so that each meets both a cold prefix cache and a warm one."""
    start = by % len(cells)
    return cells[start:] + cells[:start]


def _key(entry: dict[str, Any]) -> str:
    return repr((entry.get("cell", entry.get("off")), entry["begin"]))


def write_off(
    parity: Parity, begin: int, prompts: Sequence[HeldOut], temperature: float
) -> list[dict[str, Any]]:
    """The answers of the target alone, each by itself."""
    return [
        answer(
            parity.model.generate(
                list(prompt.tokens), spec_mode="off", **parity.sampling(temperature, begin + place)
            )
        )
        for place, prompt in enumerate(prompts)
    ]


def answer(completion: Completion) -> dict[str, Any]:
    """What has to be equal."""
    return {
        "tokens": list(completion.tokens),
        "text": completion.text,
        "finish_reason": completion.finish_reason,
    }


def write_cell(
    parity: Parity,
    scheduler: Scheduler,
    cell: Cell,
    begin: int,
    prompts: Sequence[HeldOut],
    expected: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The drafted answers to ``prompts``, held against those of ``off``."""
    started = time.perf_counter()
    requests = [
        (list(prompt.tokens), {**cell.options(), **parity.sampling(cell.temperature, begin + place)})
        for place, prompt in enumerate(prompts)
    ]
    found = run_together(scheduler, requests)
    differences = [
        {"prompt": prompt.name, **difference}
        for prompt, one, other in zip(prompts, expected, found, strict=True)
        if (difference := first_difference(one, answer(other))) is not None
    ]
    return {
        "prompts": len(prompts),
        "identical": len(prompts) - len(differences),
        "differences": differences,
        "drafted": sum(one.drafted for one in found),
        "accepted": sum(one.accepted for one in found),
        "widest": max(widest(one, cell.draft.kind) for one in found),
        "faults": [fault for one in found for fault in one.faults],
        "seconds": round(time.perf_counter() - started, 3),
    }


def widest(completion: Completion, kind: str) -> int:
    """The longest proposal of the artifact itself: of a chain only its own rounds count, not those of ``suffix``."""
    sources = completion.sources or (kind,) * len(completion.rounds)
    own = [drafted for (drafted, _), source in zip(completion.rounds, sources, strict=True) if source == kind]
    return max(own, default=0)


def first_difference(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any] | None:
    """Where two answers part; ``position`` is of a token, None where all tokens are the same."""
    left, right = [*expected["tokens"], None], [*found["tokens"], None]
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return {"what": "token", "position": position, "expected": one, "found": other}
    for what in ("text", "finish_reason"):
        if expected[what] != found[what]:
            return {"what": what, "position": None, "expected": expected[what], "found": found[what]}
    return None


def summarise(parity: Parity, journal: Journal) -> dict[str, Any]:
    """Every cell's counts, and their sums."""
    written = [entry for entry in journal.entries if "cell" in entry]
    cells = []
    for temperature in TEMPERATURES:
        for cell in parity.cells(temperature):
            own = [entry for entry in written if entry["cell"] == cell.key]
            differences = [one for entry in own for one in entry["differences"]]
            cells.append(
                {
                    "draft": cell.draft.kind,
                    "strategy": cell.options()["spec_mode"],
                    "width": cell.width,
                    "temperature": temperature,
                    **{name: sum(entry[name] for entry in own) for name in ("prompts", "identical")},
                    **{name: sum(entry[name] for entry in own) for name in ("drafted", "accepted")},
                    "widest": max(entry["widest"] for entry in own),
                    "faults": [fault for entry in own for fault in entry["faults"]],
                    "differences": differences[:SHOWN],
                }
            )
    return {
        "prompts": len(parity.prompts),
        "tokens": parity.tokens,
        "answers": sum(cell["prompts"] for cell in cells),
        "identical": sum(cell["identical"] for cell in cells),
        "faults": sum(len(cell["faults"]) for cell in cells),
        "cells_without_drafts": sum(cell["widest"] < cell["width"] for cell in cells),
        "seconds": round(sum(entry["seconds"] for entry in written), 1),
        "cells": cells,
    }


def holds(report: dict[str, Any]) -> bool:
    """Whether all is as it must be."""
    same = report["identical"] == report["answers"]
    return same and not report["faults"] and not report["cells_without_drafts"]


def show(report: dict[str, Any]) -> None:
    print_table(
        ("STRATEGY", "WIDTH", "T", "IDENTICAL", "ACCEPTED", "FAULTS", "FIRST DIFFERENCE"),
        [
            (
                cell["strategy"],
                str(cell["width"]),
                f"{cell['temperature']:g}",
                f"{cell['identical']} of {cell['prompts']}",
                f"{cell['accepted']} of {cell['drafted']}",
                str(len(cell["faults"])),
                str(cell["differences"][0]) if cell["differences"] else "none",
            )
            for cell in report["cells"]
        ],
    )
    print(
        f"{report['identical']} of {report['answers']} answers identical to off, {report['faults']} faults, "
        f"{report['cells_without_drafts']} of {len(report['cells'])} cells without a proposal of their width"
    )


def main() -> int:
    parser = program("drafter_parity", __doc__)
    parser.add_argument(
        "--draft",
        action="append",
        required=True,
        metavar="KIND=PATH",
        help="an admitted artifact; several times",
    )
    parser.add_argument("--prompts", type=int, default=300, help="how many (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=20, help="most of an answer (default: %(default)s)")
    ask_for_output(parser)
    asked = parser.parse_args()
    output = checked_output(asked.output)
    if asked.tokens < FEWEST_TOKENS:
        raise OptionError(
            f"tokens: expected at least {FEWEST_TOKENS}, room for the widest proposal, found {asked.tokens}"
        )
    drafts = list(dict.fromkeys(Draft.parse(word) for word in asked.draft))
    with load(asked.model, ctx=CONTEXT, threads=asked.threads, sequences=TOGETHER) as model:
        facts = conditions(model, asked.model)
        parity = Parity(model, held_out(model, asked.prompts), drafts, asked.tokens)
        with Journal(output.with_name(output.name + ".jsonl"), parity.identity()) as journal:
            run(parity, journal)
            report = summarise(parity, journal)
    report = {"conditions": facts, "drafts": [draft.describe() for draft in drafts], **report}
    write_report(report, output)
    show(report)
    return 0 if holds(report) else 1


if __name__ == "__main__":
    raise SystemExit(in_one_line(main))
