"""``verispec lab tune``: search a declared space, giving up only what is certainly behind."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.observing import careful_lanes, observer
from verispec.cli.lab.wording import decided_interval, percent_text
from verispec.cli.output import JsonOption, print_json, print_table
from verispec.errors import OptionError
from verispec.lab.wording import counted

if TYPE_CHECKING:
    from verispec.lab.lane.run import LaneRunner


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A search in TOML (docs/lab.md).")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run and what it could tell apart, and end.")
    ] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin again, even when the same search was interrupted.")
    ] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Run lanes on Ray; each claims its device.")] = False,
    ray_address: Annotated[
        str | None, typer.Option(help="Of a running cluster; without it one is started here.")
    ] = None,
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the best configuration of a space, and put it to fresh data. Interrupted, the same command goes on.

    Exit status 1 when the best one is no improvement; of a dry run, when something is missing that it needs.
    """
    from verispec.lab.search.outlook import search_outlook
    from verispec.lab.search.run import run_search
    from verispec.lab.search.search import load_search

    if ray_address is not None and not ray:
        raise OptionError("--ray-address: only --ray reads it")
    ledger = open_ledger(lab)
    search = load_search(file, ledger.home)
    if dry_run or not as_json:
        outlook = search_outlook(ledger, search)
        if ray_address is not None:  # its nodes have programs, files and devices of their own
            outlook["missing"] = []
        if as_json:
            print_json(outlook)
        else:
            _print_outlook(outlook)
    if dry_run:
        raise typer.Exit(1 if outlook["missing"] else 0)
    with _lanes(ray, ray_address, search.experiment.devices) as run_one_lane:
        record = run_search(ledger, search, observer(as_json), run_one_lane, anew)
    if as_json:
        print_json(record)
    else:
        _print_search(record)
    if not any(one["verdict"] in ("improvement", "promoted") for one in record["verdicts"].values()):
        raise typer.Exit(1)


def _lanes(ray: bool, address: str | None, devices: tuple[str, ...]) -> AbstractContextManager[LaneRunner]:
    from verispec.lab.search.ray_lanes import lanes_on_ray

    return lanes_on_ray(address, devices) if ray else nullcontext(careful_lanes())


def _print_outlook(outlook: dict[str, Any]) -> None:
    names = outlook["configurations"]
    typer.echo(
        f"{outlook['name']}: {counted(len(names), 'configuration')} on {', '.join(outlook['devices'])}"
    )
    for name in names[:20]:
        typer.echo(f"  {name}")
    if len(names) > 20:
        typer.echo(f"  and {len(names) - 20} more")
    if outlook["goes_on"]:
        typer.echo(f"goes on with {outlook['goes_on']}, which was interrupted (--anew begins again)")
    typer.echo(
        f"\none lane varies by {outlook['lane_deviation_percent']:.2f}%: {outlook['noise_source']}\n"
        f"the best is given up by mistake in {100 * outlook['risk']:g}% of searches at most"
    )
    print_table(
        ("", "rounds", "lanes at most", "if half fall", "gives up what is slower by"),
        [
            (
                rung["stage"],
                str(rung["rounds"]),
                str(rung["lanes_at_most"]),
                str(rung["lanes_if_halved"]),
                "nothing yet" if rung["gap_percent"] is None else f"{rung['gap_percent']:.1f}%",
            )
            for rung in outlook["rungs"]
        ],
    )
    if outlook["lanes_allowed"]:
        typer.echo(f"it ends before a rung that would go beyond {outlook['lanes_allowed']} lanes")
    effect = outlook["confirmation_effect_percent"]
    said = "no effect" if effect is None else f"effects from {effect:.1f}% on"
    lanes = counted(outlook["confirmation_lanes_per_arm"], "fresh lane")
    typer.echo(f"confirmation: {lanes} an arm find {said} (4 times of 5)")
    for missing in outlook["missing"]:
        typer.secho(f"MISSING  {missing}", fg=typer.colors.RED)
    typer.echo("")


def _print_search(record: dict[str, Any]) -> None:
    typer.echo(f"\nsearch {record['experiment']}: {record['name']}")
    for rung in record["rungs"]:
        arms, lanes = counted(len(rung["arms"]), "configuration"), counted(rung["lanes"], "lane")
        typer.echo(f"{rung['stage']}: {arms}, {lanes}")
        for arm, reason in rung["given_up"].items():
            typer.echo(f"  given up: {arm}: {reason}")
    typer.echo(f"ended: {record['why_ended']}")
    alive = record["alive"]
    if len(alive) > 1:
        typer.echo(f"not told apart: {', '.join(one['arm'] for one in alive)}")
    if alive:
        print_table(
            ("configuration", "effect in the search", "shrunken", "interval"),
            [
                (
                    one["arm"],
                    percent_text(one["effect_percent"]),
                    percent_text(one["shrunken_percent"]),
                    decided_interval(one),
                )
                for one in alive
            ],
        )
    for arm, one in record["verdicts"].items():
        typer.echo(f"on fresh data: {arm}: {one['text']}, {percent_text(one['effect_percent'])}")
        for reason in one["reasons"]:
            typer.echo(f"  {reason}")
    if not record["verdicts"]:
        typer.echo(record["verdict"])
