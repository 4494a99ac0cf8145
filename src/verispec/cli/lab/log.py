"""``verispec lab log``: what has been run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.wording import day_text
from verispec.cli.output import JsonOption, print_json, print_table

if TYPE_CHECKING:
    from verispec.lab.ledger.ledger import Ledger


def command(
    lanes: Annotated[bool, typer.Option("--lanes", help="Lanes instead of experiments.")] = False,
    experiment: Annotated[str | None, typer.Option(help="Lanes of this experiment alone.")] = None,
    last: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 40,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Experiments and their verdicts, or lanes and whether they count, the newest last."""
    ledger = open_ledger(lab)
    ledger.refresh_index()
    found = _lanes(ledger, experiment) if lanes or experiment else _experiments(ledger)
    if as_json:
        print_json(found[-last:])
    elif not found:
        typer.echo("nothing has been run yet; `verispec lab run FILE` runs an experiment (docs/lab.md)")
    else:
        print_table([*found[0]], [[_cell(value) for value in line.values()] for line in found[-last:]])


def _experiments(ledger: Ledger) -> list[dict[str, Any]]:
    """Experiments in the order they began, and what else was measured: quality, profiles, company."""
    ended = {}
    for digest in ledger.index.all("experiment"):
        record = ledger.get(digest)
        ended[record["experiment"]] = record["verdict"]
    lines = []
    for digest in ledger.index.all("experiment-begun"):
        record = ledger.get(digest)
        number = record["experiment"]
        lines.append(_line("experiment", record, record["suite_name"], ended.get(number, "unfinished")))
    for kind in ("quality", "profile", "company"):
        for digest in ledger.index.all(kind):
            record = ledger.get(digest)
            suite = record["suite_name"] if "suite_name" in record else record["tasks"]["name"]
            lines.append(_line(kind, record, suite, record.get("verdict", "measured")))
    return [line for _, line in sorted(lines, key=lambda one: one[0])]


def _line(kind: str, record: dict[str, Any], suite: str, verdict: str) -> tuple[float, dict[str, Any]]:
    """When it began, and what the list says of it."""
    return record["began"], {
        "experiment": record["experiment"],
        "kind": kind,
        "began": day_text(record["began"]),
        "name": record["name"],
        "suite": suite,
        "verdict": verdict,
    }


def _lanes(ledger: Ledger, experiment: str | None) -> list[dict[str, Any]]:
    """Lanes in the order they began; one that has no end was interrupted."""
    from verispec.lab.gate.rules import broken_names

    ended = {}
    for digest in ledger.index.all("lane"):
        record = ledger.get(digest)
        ended[record["lane"]] = record
    lines = []
    for digest in ledger.index.all("lane-begun"):
        begun = ledger.get(digest)
        if experiment is not None and not begun["experiment"].startswith(experiment):
            continue
        record = ended.get(begun["lane"], {})
        rate = (record.get("summary") or {}).get("rate_1_100")
        failed = broken_names(record.get("gate", ()))
        lines.append(
            {
                "lane": begun["lane"],
                "experiment": begun["experiment"],
                "stage": begun["stage"],
                "arm": begun["arm"],
                "block": begun["block"],
                "median": None if rate is None else round(rate["median"], 2),
                "valid": ("yes" if not failed else f"no: {' '.join(failed)}")
                if record
                else "no: interrupted",
            }
        )
    return lines


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)
