"""What an experiment will run and what it could find, said before its first lane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from verispec.lab.decision.decision import rounded_percent
from verispec.lab.decision.lanes_needed import fewest_pairs
from verispec.lab.decision.promotion import FEWEST_CLASSES, FEWEST_PROMPTS, FRESH_SERVERS
from verispec.lab.experiment.bank import planning_bank
from verispec.lab.experiment.needs import check_inherited, missing_needs
from verispec.lab.experiment.spec import Experiment
from verispec.lab.gate.promotion_rules import CAP
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.simulation.sequential_power import pairs_for, smallest_detectable

Record = dict[str, Any]


def experiment_outlook(
    ledger: Ledger, experiment: Experiment, effects: Sequence[float] = (0.01, 0.02, 0.05)
) -> Record:
    """Commands, stages, what each deciding stage can find, what is missing, and what a promotion could not meet.

    ``deciding`` has an entry for screen and confirmation where they run. ``fewest_lanes`` an arm are needed for any
    verdict at all, and with fewer ``decides`` is false. ``smallest_percent`` is the smallest effect that the lanes find
    4 times of 5 where they vary as in ``noise_source`` and are judged by their own noise, as they will be; ``needed``
    is how many of an arm each of ``effects`` (shares) takes, of the confirmation. OptionError as ``run_experiment``.
    """
    check_inherited(experiment)
    targets = {arm: target.record() for arm, target in experiment.arms.items()}
    return {
        "commands": {
            arm: {"command": one["command"], "environment": one["environment"]}
            for arm, one in targets.items()
        },
        "stages": planned_stages(experiment),
        "deciding": [
            _deciding(ledger, experiment, stage, rounds, cap, effects if stage == "confirmation" else ())
            for stage, rounds, cap in _comparing(experiment)
        ],
        "promotion_lacks": _promotion_lacks(experiment),
        "missing": missing_needs(experiment),
    }


def planned_stages(experiment: Experiment) -> list[Record]:
    """Each stage that may run, with its lanes at most (``lanes``) and what each of them asks."""
    stages, devices = experiment.stages, len(experiment.devices)
    prompts, kept = len(experiment.suite.prompts), _kept(experiment)
    confirmed = stages.confirmation * devices * (1 + kept)
    repeated = stages.repeat * devices * (1 + kept) if confirmed else 0
    rows = [
        ("smoke", len(experiment.arms), stages.smoke_prompts, stages.screen_cap),
        ("screen", stages.screen * devices * len(experiment.arms), prompts, stages.screen_cap),
        ("confirmation", confirmed, prompts, stages.confirmation_cap),
        ("repeat", repeated, prompts, stages.confirmation_cap),
        ("reference", int(_has_reference(experiment)), prompts, stages.confirmation_cap),
    ]
    return [
        {"stage": stage, "lanes": lanes, "prompts": min(asked, prompts), "cap": cap}
        for stage, lanes, asked, cap in rows
        if lanes
    ]


def _comparing(experiment: Experiment) -> list[tuple[str, int, int]]:
    """Stage, rounds and cap of those whose lanes say something of a candidate."""
    stages = experiment.stages
    found = [
        ("screen", stages.screen, stages.screen_cap),
        ("confirmation", stages.confirmation, stages.confirmation_cap),
    ]
    return [one for one in found if one[1]]


def _deciding(
    ledger: Ledger, experiment: Experiment, stage: str, rounds: int, cap: int, effects: Sequence[float]
) -> Record:
    searched = len(experiment.candidates) if stage == "screen" else _kept(experiment)
    plan = replace(experiment.plan, searched=searched)
    lanes, fewest = rounds * len(experiment.devices), fewest_pairs(plan)
    found = {"stage": stage, "lanes_per_arm": lanes, "searched": searched, "fewest_lanes": fewest}
    if fewest is None or lanes < fewest:
        return {**found, "decides": False}
    bank, source = planning_bank(ledger, experiment, cap)
    deviation = bank.noise.deviation
    return {
        **found,
        "decides": True,
        "noise_source": source,
        "lane_deviation_percent": round(100 * deviation, 3),
        "smallest_percent": rounded_percent(smallest_detectable(deviation, lanes, plan)),
        "needed": [
            {"effect_percent": 100 * effect, "lanes": pairs_for(deviation, math.log1p(effect), plan)}
            for effect in effects
        ],
    }


def _kept(experiment: Experiment) -> int:
    """Candidates that are confirmed at most."""
    stages = experiment.stages
    return min(stages.kept, len(experiment.candidates)) if stages.screen else len(experiment.candidates)


def _has_reference(experiment: Experiment) -> bool:
    stages = experiment.stages
    return experiment.reference is not None and bool(stages.confirmation and stages.repeat)


def _promotion_lacks(experiment: Experiment) -> list[str]:
    """What a promotion needs and this plan, whatever it finds, does not give; what lanes will show is not among it."""
    stages, prompts = experiment.stages, experiment.suite.prompts
    classes = len({one.category for one in prompts})
    lacks = []
    if not stages.confirmation:
        lacks.append("confirmation: expected rounds, found 0")
    servers = stages.repeat * len(experiment.devices)
    if servers < FRESH_SERVERS:
        lacks.append(
            f"repeat: expected {FRESH_SERVERS} fresh servers of the candidate or more, found {servers}"
        )
    if stages.confirmation_cap != CAP:
        lacks.append(f"confirmation_cap: expected {CAP}, found {stages.confirmation_cap}")
    if len(prompts) < FEWEST_PROMPTS or classes < FEWEST_CLASSES:
        expected = f"expected {FEWEST_PROMPTS} prompts of {FEWEST_CLASSES} classes"
        lacks.append(f"suite: {expected} or more, found {len(prompts)} of {classes}")
    return lacks
