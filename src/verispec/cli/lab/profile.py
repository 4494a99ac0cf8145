"""``verispec lab profile``: a target's peak and what it does on the workload, kept apart by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.observing import careful_lanes, observer
from verispec.cli.lab.wording import day_text
from verispec.cli.output import JsonOption, print_json, print_table
from verispec.lab.wording import counted

app = typer.Typer(
    name="profile",
    help="Peak and representative profiles of a target; never mixed.",
    no_args_is_help=True,
)


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Profiles of a target in TOML (docs/lab.md).")],
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure each profile of a file: rates, slow prompts, phases, telemetry. Exit status 1 without a valid lane."""
    from verispec.lab.quality.profile_run import load_profile_runs, measure_profile

    ledger = open_ledger(lab)
    runs = load_profile_runs(file, ledger.home)
    records = [measure_profile(ledger, one, observer(as_json), careful_lanes()) for one in runs]
    if as_json:
        print_json(records)
    else:
        for record in records:
            print_profile(record)
    if not all(record["valid_lanes"] for record in records):
        raise typer.Exit(1)


@app.command("list")
def list_all(lab: LedgerOption = None, as_json: JsonOption = False) -> None:
    """Every profile that was measured, those of one name together."""
    from verispec.lab.quality.figures import PROFILES

    records = [record for _, record in open_ledger(lab).records("profile")]
    if as_json:
        print_json(records)
        return
    for profile in PROFILES:
        found = [record for record in records if record["profile"] == profile]
        bases = list(dict.fromkeys(rate["basis"] for record in found for rate in record["rates"]))
        if found:
            typer.echo(profile)
            print_table(
                ("measured", "target", "suite", "lanes", *(f"{basis} tokens/s" for basis in bases)),
                [
                    (
                        day_text(one["began"]),
                        one["name"],
                        one["suite_name"],
                        f"{one['valid_lanes']} valid",
                        *(_rates(one, basis) for basis in bases),
                    )
                    for one in found
                ],
            )
    if not records:
        typer.echo("nothing has been measured yet; `verispec lab profile run FILE` does (docs/lab.md)")


def print_profile(record: dict[str, Any]) -> None:
    """One profile for people."""
    from verispec.cli.lab.audit_text import print_phases, print_tail, print_telemetry

    lanes = counted(record["valid_lanes"], "valid lane")
    typer.echo(f"\n{record['profile']}: {record['name']} on {record['suite_name']}, {lanes}")
    for reason in record["invalid"]:
        typer.secho(f"INVALID  {reason}", fg=typer.colors.RED)
    for basis in dict.fromkeys(rate["basis"] for rate in record["rates"]):
        typer.echo(f"{record['profile']} {basis}: {_rates(record, basis)} tokens/s")
    if record["tail"]:
        print_tail(record["tail"], record.get("passes_inferred", False))
    if record["valid_lanes"]:
        print_phases(record["phases"])
    print_telemetry(record["telemetry"])


def _rates(record: dict[str, Any], basis: str) -> str:
    """Every lane's, since one lane is one draw."""
    return ", ".join(f"{rate['value']:.2f}" for rate in record["rates"] if rate["basis"] == basis) or "-"
