"""Whether a device or the time of day could pass for an effect, given where and when the lanes ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from verispec.lab.evidence_rows import LaneValues

MOST_APART = 0.5
"""Arms may share this little of their devices: half of one arm's lanes ran where the other arm's did not."""

FEWEST_BLOCKS = 3
"""Blocks that all begin with the same arm are chance below this."""


def imbalances(control: Sequence[LaneValues], candidate: Sequence[LaneValues]) -> tuple[str, ...]:
    """What is unbalanced between the arms, in words; empty when nothing is."""
    found = [_devices(control, candidate), _order(control, candidate)]
    return tuple(text for text in found if text)


def _devices(control: Sequence[LaneValues], candidate: Sequence[LaneValues]) -> str:
    """Total variation distance between the devices of the two arms."""
    counts = [Counter(lane.device for lane in arm) for arm in (control, candidate)]
    shares = [{device: count / total.total() for device, count in total.items()} for total in counts]
    devices = sorted(shares[0].keys() | shares[1].keys())
    apart = sum(abs(shares[0].get(one, 0.0) - shares[1].get(one, 0.0)) for one in devices) / 2
    if apart <= MOST_APART:
        return ""
    places = [", ".join(f"{count[one]} on {one}" for one in devices if count[one]) for count in counts]
    return f"device and arm are confounded: control lanes {places[0]}; candidate lanes {places[1]}"


def _order(control: Sequence[LaneValues], candidate: Sequence[LaneValues]) -> str:
    """Whether one arm came first in every block in which the arms ran one after the other."""
    orders: dict[str, tuple[list[int], list[int]]] = {}
    for arm, lanes in enumerate((control, candidate)):
        for lane in lanes:
            orders.setdefault(lane.block, ([], []))[arm].append(lane.order)
    later = [sum(b) / len(b) - sum(a) / len(a) for a, b in orders.values() if a and b]
    moved = [one for one in later if one != 0]
    if len(moved) < FEWEST_BLOCKS or min(moved) < 0 < max(moved):
        return ""
    first = "control" if moved[0] > 0 else "candidate"
    return f"order and arm are confounded: the {first} ran first in all {len(moved)} blocks"
