"""``verispec lab concurrency``: the same prompts alone and in company."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.number_list import parse_numbers
from verispec.cli.output import JsonOption, print_json, print_table
from verispec.errors import OptionError


def command(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A target in TOML (docs/lab.md).")],
    widths: Annotated[
        str, typer.Option(help="Requests open at once, comma-separated; 1 is added.")
    ] = "1,2,4",
    suite: Annotated[str, typer.Option(help="Prompts: a name or a TOML file.")] = "realistic-12",
    cap: Annotated[int, typer.Option(min=2, help="Most tokens of an answer.")] = 128,
    device: Annotated[str, typer.Option(help="Where it runs: cpu, cpu:0,1 or 0.")] = "cpu",
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask one fresh server a width. Exit status 1 when an answer fails, or company changes what is written."""
    from verispec.lab.quality.company import measure_company
    from verispec.lab.suites.prompts import load_prompts
    from verispec.lab.targets.devices import check_device
    from verispec.lab.targets.loading import load_target

    numbers = parse_numbers("--widths", widths, int)
    if min(numbers) < 1:
        raise OptionError(f"--widths: expected numbers of at least 1, found {widths!r}")
    ledger = open_ledger(lab)
    loaded = load_target(target)
    check_device(device, [loaded], "--device")
    record = measure_company(ledger, loaded, device, load_prompts(suite, ledger.home), cap, numbers)
    if as_json:
        print_json(record)
    else:
        print_company(record)
    if not all(one["valid"] and not one["differing"] for one in record["widths"]):
        raise typer.Exit(1)


def print_company(record: dict[str, Any]) -> None:
    """A line a width, and what speaks against it."""
    print_table(
        ("open at once", "tokens/s together", "of each", "first token", "slowest", "output of solo"),
        [
            (
                str(one["width"]),
                *(_number(one[name]) for name in ("together", "each")),
                *(f"{_number(one[name])} s" for name in ("first_token", "first_token_max")),
                one["output_of_solo"] or "-",
            )
            for one in record["widths"]
        ],
    )
    for one in record["widths"]:
        for fault in one["faults"]:
            typer.secho(f"INVALID  {one['width']} open: {fault}", fg=typer.colors.RED)
        if one["differing"]:
            typer.echo(f"{one['width']} open: other text than alone: {', '.join(one['differing'][:12])}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
