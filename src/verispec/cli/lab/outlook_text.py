"""What an experiment could find, said before it runs."""

from __future__ import annotations

import typer

from verispec.lab.experiment.bank import own_bank
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.noise_bank import PUBLISHED, read_bank
from verispec.lab.planning import plan_experiment

EFFECTS = (0.01, 0.02, 0.05)


def print_outlook(ledger: Ledger, experiment: Experiment) -> None:
    """Arms, lanes, and the smallest effect that the confirmation can find by what is known of the noise."""
    stages = experiment.stages
    arms = ", ".join(arm for arm in experiment.arms if arm != CONTROL)
    typer.echo(f"{experiment.name}: {arms} against {experiment.arms[CONTROL].name}")
    if experiment.intent:
        typer.echo(experiment.intent)
    lanes = stages.confirmation * len(experiment.devices)
    if lanes:
        _print_detectable(ledger, experiment, lanes)
    typer.echo("")


def _print_detectable(ledger: Ledger, experiment: Experiment, lanes: int) -> None:
    """Past controls say how much a lane varies; what is found, its own lanes judge, as they will."""
    bank = own_bank(ledger, experiment, experiment.stages.confirmation_cap)
    own = bank.noise.degrees > 0
    if not own:
        bank = read_bank(PUBLISHED, "512", "median")
    outlook = plan_experiment(bank, experiment.plan, [lanes], EFFECTS)
    (row,) = outlook["detectable"]
    found = row["noise_unknown_percent"]
    said = "no effect" if found is None else f"effects from {found:.1f}% on"
    source = "past controls of this ledger" if own else "a published log, for want of controls of one's own"
    typer.echo(
        f"{lanes} lanes an arm find {said} (4 times of 5), where a lane varies by "
        f"{outlook['lane_deviation_percent']:.2f}%: {source}"
    )
    needed = outlook["needed"]
    typer.echo(
        "; ".join(
            f"{one['effect_percent']:g}% needs {one['noise_unknown_lanes'] or 'too many'} lanes an arm"
            for one in needed
        )
    )
