"""Which arm runs where and when, so that neither a device nor the time of day can pass for an effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verispec.errors import OptionError


@dataclass(frozen=True, slots=True)
class PlannedLane:
    """One lane to run. Lanes of one ``wave`` may run at the same time, each on its device; ``order`` is the place
    within the block, which is one device through as many waves as there are arms."""

    arm: str
    device: str
    wave: int
    block: str
    order: int


def balanced_order(arms: Sequence[str], devices: Sequence[str], rounds: int) -> list[PlannedLane]:
    """Every device runs every arm once a round: ``rounds`` x devices blocks of one lane an arm, in waves.

    The order of arms within a block is a row of a Latin square: shifted from device to device, so that a wave holds
    each arm equally often where the devices divide evenly, and reversed in every second round. Two arms on one device
    are therefore run A B, B A, B A, A B, and two arms on four devices in one round as A B A B, then B A B A. A drift
    that is linear over a round and its mirror, and any constant difference of devices, cancel exactly. Williams' design
    of an experiment with carry-over (E. J. Williams, 1949) is the same for two arms.
    """
    if len(arms) < 2 or len(set(arms)) != len(arms):
        raise OptionError(f"arms: expected two or more with different names, found {list(arms)}")
    if not devices or len(set(devices)) != len(devices):
        raise OptionError(f"devices: expected one or more with different names, found {list(devices)}")
    if rounds < 1:
        raise OptionError(f"rounds: expected one or more, found {rounds}")
    lanes = []
    for turn in range(rounds):
        for place, device in enumerate(devices):
            row = _row(arms, place + turn // 2)
            for order, arm in enumerate(row if turn % 2 == 0 else row[::-1]):
                wave = turn * len(arms) + order
                lanes.append(PlannedLane(arm, device, wave, f"{turn + 1}/{device}", order))
    return sorted(lanes, key=lambda lane: lane.wave)


def _row(arms: Sequence[str], shift: int) -> list[str]:
    """The arms in order, beginning with the one at ``shift``."""
    start = shift % len(arms)
    return [*arms[start:], *arms[:start]]
