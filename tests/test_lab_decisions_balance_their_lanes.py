"""Lanes are ordered so that devices and drifts cancel."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from verispec.errors import OptionError
from verispec.lab.decision import PlannedLane, balanced_order


def effect_seen(lanes: list[PlannedLane], pace: dict[str, float], drift: np.ndarray) -> float:
    """What the candidate seems to gain when it gains nothing, devices differ and time passes."""
    by_arm = {
        arm: np.mean([pace[one.device] + drift[one.wave] for one in lanes if one.arm == arm])
        for arm in ("a", "b")
    }
    return float(by_arm["b"] - by_arm["a"])


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
@pytest.mark.parametrize("rounds", [2, 4])
def test_devices_and_linear_drift_cancel(devices: int, rounds: int) -> None:
    names = [f"gpu{n}" for n in range(devices)]
    lanes = balanced_order(["a", "b"], names, rounds)
    pace = {name: float(n**2) for n, name in enumerate(names)}
    waves = 2 * rounds
    assert effect_seen(lanes, pace, np.arange(waves, dtype=float)) == pytest.approx(0)
    if rounds == 4:
        assert effect_seen(lanes, pace, np.arange(waves, dtype=float) ** 2) == pytest.approx(0)


def test_one_device_alternates_and_four_cross_over() -> None:
    one = balanced_order(["a", "b"], ["gpu0"], 4)
    assert "".join(lane.arm for lane in one) == "abbabaab"
    four = balanced_order(["a", "b"], ["gpu0", "gpu1", "gpu2", "gpu3"], 1)
    waves = {wave: {lane.device: lane.arm for lane in four if lane.wave == wave} for wave in (0, 1)}
    assert waves[0] == {"gpu0": "a", "gpu1": "b", "gpu2": "a", "gpu3": "b"}
    assert waves[1] == {"gpu0": "b", "gpu1": "a", "gpu2": "b", "gpu3": "a"}


def test_many_arms_form_a_latin_square() -> None:
    arms = ["a", "b", "c"]
    lanes = balanced_order(arms, ["x", "y", "z"], 1)
    for wave in range(3):
        assert {lane.arm for lane in lanes if lane.wave == wave} == set(arms)
    for device in ("x", "y", "z"):
        assert sorted(lane.arm for lane in lanes if lane.device == device) == arms


@pytest.mark.parametrize("arms", [["a", "b"], ["a", "b", "c", "d", "e"]])
def test_every_block_holds_every_arm_once_on_one_device(arms: list[str]) -> None:
    lanes = balanced_order(arms, ["x", "y"], 3)
    assert Counter((lane.block, lane.arm) for lane in lanes) == Counter(
        {(f"{turn}/{device}", arm): 1 for turn in (1, 2, 3) for device in "xy" for arm in arms}
    )
    assert all(lane.block.endswith(lane.device) for lane in lanes)
    assert len({(lane.wave, lane.device) for lane in lanes}) == len(lanes)


@pytest.mark.parametrize(
    ("arms", "devices", "rounds"),
    [(["a"], ["x"], 1), (["a", "a"], ["x"], 1), (["a", "b"], [], 1), (["a", "b"], ["x"], 0)],
)
def test_an_order_that_cannot_be_is_refused(arms: list[str], devices: list[str], rounds: int) -> None:
    with pytest.raises(OptionError):
        balanced_order(arms, devices, rounds)
