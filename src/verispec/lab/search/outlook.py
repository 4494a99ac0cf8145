"""What a search would run and could tell apart, before its first lane."""

from __future__ import annotations

import math
from typing import Any

from verispec.lab.decision.decision import rounded_percent
from verispec.lab.experiment.bank import planning_bank
from verispec.lab.experiment.needs import missing_needs
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.search.run import unfinished
from verispec.lab.search.search import Search
from verispec.lab.simulation.sequential_power import smallest_detectable


def search_outlook(ledger: Ledger, search: Search) -> dict[str, Any]:
    """Configurations, rungs with their lanes, and effects that are found 4 times of 5.

    Past controls say how much a lane varies; the search itself will decide by its own lanes alone.
    ``gap_percent`` of a rung is the difference between two configurations that gives the slower one up by its end.
    ``lanes_at_most`` is when nobody is behind, ``lanes_if_halved`` when half of them are in each rung.
    """
    experiment, halving = search.experiment, search.halving
    bank, source = planning_bank(ledger, experiment, experiment.stages.screen_cap)
    deviation = bank.noise.deviation
    plan = experiment.plan
    giving_up = search.giving_up(plan)
    devices = len(experiment.devices)
    rungs: list[dict[str, Any]] = []
    rounds = 0
    alive = len(experiment.candidates)
    for rung in range(halving.rungs):
        rounds += halving.rounds(rung)
        halved = max(math.ceil(alive / 2**rung), 1)
        rungs.append(
            {
                "stage": f"rung-{rung + 1}",
                "rounds": halving.rounds(rung),
                "lanes_at_most": halving.rounds(rung) * devices * (alive + 1),
                "lanes_if_halved": halving.rounds(rung) * devices * (halved + 1),
                "gap_percent": rounded_percent(
                    smallest_detectable(deviation, rounds * devices, giving_up), 2
                ),
            }
        )
    confirming = experiment.stages.confirmation * devices
    found = smallest_detectable(deviation, confirming, plan) if confirming else None
    going_on = unfinished(ledger, search)
    return {
        "name": search.name,
        "configurations": experiment.candidates,
        "devices": list(experiment.devices),
        "risk": halving.risk,
        "lanes_allowed": halving.lanes or None,
        "rungs": rungs,
        "confirmation_lanes_per_arm": confirming,
        "confirmation_effect_percent": rounded_percent(found, 2),
        "lane_deviation_percent": round(100 * deviation, 3),
        "noise_source": source,
        "missing": missing_needs(experiment),
        "goes_on": None if going_on is None else going_on["experiment"],
    }
