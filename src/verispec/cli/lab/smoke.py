"""``verispec lab smoke``: does a target start, answer, and pass the gate on a few prompts?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verispec.cli.lab.ledger_option import LedgerOption, open_ledger
from verispec.cli.lab.observing import careful_lanes
from verispec.cli.output import JsonOption, print_json


def command(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A target in TOML (docs/lab.md).")],
    suite: Annotated[str, typer.Option(help="Prompts: a name or a TOML file.")] = "realistic-12",
    canaries: Annotated[str, typer.Option(help="Canaries: a name or a TOML file.")] = "canaries",
    prompts: Annotated[int, typer.Option(min=1, help="How many prompts of the suite.")] = 2,
    cap: Annotated[int, typer.Option(min=1, help="Most tokens of an answer.")] = 128,
    device: Annotated[str, typer.Option(help="Where it runs: cpu, cpu:0,1 or 0.")] = "cpu",
    lab: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one short lane and say which rules of the gate it breaks. Exit status 1 when it breaks one."""
    from verispec.lab.experiment.smoke import smoke_suite
    from verispec.lab.lane.request import LaneRequest
    from verispec.lab.suites.canaries import load_canaries
    from verispec.lab.suites.prompts import load_prompts
    from verispec.lab.targets.devices import check_device
    from verispec.lab.targets.loading import load_target

    ledger = open_ledger(lab)
    loaded = load_target(target)
    check_device(device, [loaded], "--device")
    request = LaneRequest(
        experiment="smoke",
        stage="smoke",
        arm="control",
        block=f"1/{device}",
        order=0,
        device=device,
        target=loaded,
        suite=smoke_suite(load_prompts(suite, ledger.home), prompts),
        cap=cap,
        canaries=load_canaries(canaries, ledger.home),
    )
    _, record = careful_lanes()(ledger, request, lambda done, total: None)
    if as_json:
        print_json(record)
    else:
        from verispec.cli.lab.experiment_text import print_lane

        print_lane(record)
    if not record["valid"]:
        raise typer.Exit(1)
