"""``verispec lab plan``: what an experiment could see, before it is run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from verispec.cli.lab import decision_options as flags
from verispec.cli.number_list import parse_numbers
from verispec.cli.output import JsonOption, print_json, print_table
from verispec.errors import OptionError


def command(
    lanes: Annotated[
        str, typer.Option("--lanes", help="Lanes of each arm, comma-separated: what could these see?")
    ] = "4,8,16,32",
    effects: flags.EffectsOption = "1,2,3,5",
    bank: flags.BankOption = None,
    stage: Annotated[str, typer.Option("--stage", help="The cap of tokens.")] = "512",
    metric: flags.MetricOption = "median",
    searched: Annotated[
        int, typer.Option("--searched", min=1, help="Candidates that will be decided on the same data.")
    ] = 1,
    margin: flags.MarginOption = 1.0,
    alpha: flags.AlphaOption = 0.05,
    as_json: JsonOption = False,
) -> None:
    """The smallest effect that a number of lanes can find, and the lanes that a wanted effect needs (80% power)."""
    from verispec.lab.decision import DecisionPlan
    from verispec.lab.noise_bank import PUBLISHED, read_bank
    from verispec.lab.planning import plan_experiment

    known = read_bank(bank or PUBLISHED, stage, metric)
    plan = DecisionPlan(margin=margin / 100, alpha=alpha, searched=searched)
    outlook = plan_experiment(known, plan, _counts(lanes), flags.effect_shares(effects))
    if as_json:
        print_json(outlook)
    else:
        _print(outlook)


def _counts(text: str) -> list[int]:
    numbers = parse_numbers("--lanes", text, int)
    if min(numbers) < 1:
        raise OptionError(f"--lanes: expected one lane or more, found {text!r}")
    return numbers


def _print(outlook: dict[str, Any]) -> None:
    typer.echo(
        f"{outlook['source']}, {outlook['metric']} at stage {outlook['stage']}: one lane varies by "
        f"{outlook['lane_deviation_percent']:.2f}% ({outlook['identical_lanes']} identical lanes)\n"
    )
    if outlook["by_prompts"] is not None:
        varies = ", ".join(f"{prompts} prompts {one:.2f}%" for prompts, one in outlook["by_prompts"].items())
        typer.echo(f"One lane would vary, with {varies}\n")
    print_table(
        ("lanes per arm", "smallest effect found", "with the bank's noise", "testing once"),
        [
            (
                str(row["lanes_per_arm"]),
                _percent(row["noise_unknown_percent"]),
                _percent(row["bank_noise_percent"]),
                _percent(row["fixed_size_percent"]),
            )
            for row in outlook["detectable"]
        ],
    )
    typer.echo("")
    print_table(
        ("effect", "lanes per arm at most", "with the bank's noise", "testing once"),
        [
            (
                f"{row['effect_percent']:g}%",
                _count(row["noise_unknown_lanes"]),
                _count(row["bank_noise_lanes"]),
                str(row["fixed_size_lanes"]),
            )
            for row in outlook["needed"]
        ],
    )


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}%"


def _count(value: int | None) -> str:
    return "too many" if value is None else str(value)
