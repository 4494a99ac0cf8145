"""The lab's own bank: how much lanes that should not differ have differed here, from the controls in the ledger.

It plans: how many lanes an effect needs. It does not decide, because nothing shows beforehand that the host, its load
and the arguments are those of the past, and a bank that is wrong by a factor makes improvements of nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.lane_values import lane_values
from verispec.lab.noise_bank import PUBLISHED, NoiseBank, read_bank

MOST_CONTROLS = 128
"""So many past controls know the noise well enough; older ones are of another time, and reading rows takes long."""

MOST_READ = 1024
"""So many lane records are looked at, however few of them are comparable."""


def own_bank(ledger: Ledger, experiment: Experiment, cap: int) -> NoiseBank:
    """Past controls of the same engine, model, suite, devices and cap; a batch is those of one stage on one device.

    A lane's value is the geometric mean of its prompts, as decisions weigh it. The newest ``MOST_CONTROLS`` count. May
    hold no batch at all.
    """
    ledger.refresh_index()
    groups: dict[tuple[str, str, str], list[float]] = {}
    read = 0
    for digest in reversed(ledger.index.lanes(CONTROL, experiment.suite.name)[-MOST_READ:]):
        lane = ledger.get(digest)
        if not _comparable(lane, experiment, cap):
            continue
        read += 1
        measured = lane_values(lane, ledger.rows(lane), experiment.metric)
        if measured is not None:
            logs = [math.log(one.value) for one in measured.values]
            key = (lane["experiment"], lane["stage"], lane["device"])
            groups.setdefault(key, []).append(math.exp(math.fsum(logs) / len(logs)))
        if read == MOST_CONTROLS:
            break
    batches = tuple(tuple(values) for values in groups.values() if len(values) > 1)
    return NoiseBank("past controls of this ledger", str(cap), experiment.metric, batches)


def planning_bank(ledger: Ledger, experiment: Experiment, cap: int) -> tuple[NoiseBank, str]:
    """The bank that an experiment is planned with, and where it is from: its own one, or a published log's at 512.

    A ledger that there is not yet is not made for it.
    """
    if ledger.home.is_dir():
        bank = own_bank(ledger, experiment, cap)
        if bank.noise.degrees:
            return bank, bank.source
    return read_bank(PUBLISHED, "512", "median"), "a published log, for want of controls of one's own"


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
