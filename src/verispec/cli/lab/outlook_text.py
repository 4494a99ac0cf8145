"""What an experiment will run and could find, for people, before it runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import typer

from verispec.cli.output import print_table, printable
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.wording import counted

Record = Mapping[str, Any]


def print_outlook(experiment: Experiment, outlook: Record) -> None:
    """Arms with their commands, stages with their lanes, what those can find, and what is missing."""
    typer.echo(f"{experiment.name}: {', '.join(experiment.candidates)} against the {CONTROL}")
    if experiment.intent:
        typer.echo(experiment.intent)
    suite, canaries = experiment.suite, experiment.canaries
    typer.echo(
        f"suite {suite.name} ({counted(len(suite.prompts), 'prompt')}), {canaries.name} "
        f"({counted(len(canaries.canaries), 'canary', 'canaries')}, each asked {counted(canaries.repeats, 'time')}), "
        f"on {' and '.join(experiment.devices)}"
    )
    for arm, one in outlook["commands"].items():
        typer.echo(f"  {arm}: {printable(shlex.join(one['command']))}")
        for name, value in one["environment"].items():
            typer.echo(f"    {name}={printable(value)}")
    print_table(
        ("stage", "lanes at most", "prompts of each", "tokens of an answer"),
        [
            (one["stage"], str(one["lanes"]), str(one["prompts"]), str(one["cap"]))
            for one in outlook["stages"]
        ],
    )
    for one in outlook["deciding"]:
        _print_power(one)
    if not any(one["decides"] for one in outlook["deciding"]):
        typer.secho("this plan can never decide anything, whatever it finds", fg=typer.colors.YELLOW)
    for lack in outlook["promotion_lacks"]:
        typer.echo(f"cannot be promoted: {lack}")
    for missing in outlook["missing"]:
        typer.secho(f"MISSING  {missing}", fg=typer.colors.RED)
    typer.echo("")


def _print_power(one: Record) -> None:
    """Of one stage: whether it can decide at all, from which effect on, and what effects would need."""
    lanes = f"{one['stage']}: {counted(one['lanes_per_arm'], 'lane')} an arm"
    if not one["decides"]:
        fewest = "more than anybody could run" if one["fewest_lanes"] is None else one["fewest_lanes"]
        left = ", the best-looking go on" if one["stage"] == "screen" else ""
        typer.echo(f"{lanes} decide nothing{left}: a verdict needs at least {fewest} (rounds x devices)")
        return
    found = one["smallest_percent"]
    said = "no effect below fourfold" if found is None else f"effects from {found:.1f}% on"
    typer.echo(
        f"{lanes} find {said} (4 times of 5), where a lane varies by "
        f"{one['lane_deviation_percent']:.2f}%: {one['noise_source']}"
    )
    needed = (
        f"{each['effect_percent']:g}% needs {each['lanes'] or 'too many'} lanes an arm"
        for each in one["needed"]
    )
    if one["needed"]:
        typer.echo(f"  {'; '.join(needed)}")
