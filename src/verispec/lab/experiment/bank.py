"""The lab's own bank: how much lanes that should not differ have differed here, from the controls in the ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from verispec.lab.decision import DecisionPlan
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.lane_values import lane_values
from verispec.lab.noise_bank import NoiseBank


def own_bank(ledger: Ledger, experiment: Experiment, cap: int) -> NoiseBank:
    """Past controls of the same engine, model, suite, devices and cap; a batch is those of one stage on one device.

    A lane's value is the geometric mean of its prompts, as decisions weigh it. May hold no batch at all.
    """
    ledger.refresh_index()
    groups: dict[tuple[str, str, str], list[float]] = {}
    for digest in ledger.index.lanes(CONTROL, experiment.suite.name):
        lane = ledger.get(digest)
        if not _comparable(lane, experiment, cap):
            continue
        measured = lane_values(lane, ledger.rows(lane), experiment.metric)
        if measured is not None:
            logs = [math.log(one.value) for one in measured.values]
            key = (lane["experiment"], lane["stage"], lane["device"])
            groups.setdefault(key, []).append(math.exp(math.fsum(logs) / len(logs)))
    batches = tuple(tuple(values) for values in groups.values() if len(values) > 1)
    return NoiseBank("controls of this ledger", str(cap), experiment.metric, batches)


def plan_with_bank(plan: DecisionPlan, bank: NoiseBank, searched: int) -> DecisionPlan:
    """The experiment's plan for ``searched`` candidates, with the noise that the bank knows."""
    return replace(plan, searched=searched, noise=bank.noise)


def _comparable(lane: Mapping[str, Any], experiment: Experiment, cap: int) -> bool:
    control = experiment.arms[CONTROL]
    return (
        bool(lane["valid"])
        and lane["max_tokens"] == cap
        and lane["device"] in experiment.devices
        and lane["suite"]["sha256"] == experiment.suite.digest
        and lane["target"]["profile"] == control.profile.engine
        and lane["target"]["model"] == control.model
    )
