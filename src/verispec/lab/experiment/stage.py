"""Running one stage: lanes in balanced order, one wave after the other, until everyone asked is satisfied."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from verispec.bench.suites import Suite
from verispec.lab.decision import PlannedLane, balanced_order
from verispec.lab.experiment.measured import MeasuredLane, StageLanes
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.spec import Experiment
from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner, run_lane
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.targets.target import Target

Enough = Callable[[StageLanes], bool]


class StageRunner:
    """Runs lanes of one experiment, whose id is ``number``. ``shown`` are proofs about knobs, by arm.

    ``run_one_lane`` takes the place of ``run_lane``: on another machine, or with something around it.
    """

    def __init__(
        self,
        ledger: Ledger,
        experiment: Experiment,
        number: str,
        observer: Observer,
        run_one_lane: LaneRunner | None = None,
    ) -> None:
        self._ledger = ledger
        self._experiment = experiment
        self._number = number
        self._observer = observer
        self._run_one_lane = run_one_lane
        self.shown: dict[str, dict[str, str]] = {}

    def run(
        self, stage: str, arms: Sequence[str], rounds: int, suite: Suite, cap: int, enough: Enough
    ) -> StageLanes:
        """``rounds`` at most; ``enough`` is asked after each, when every arm has run equally often everywhere."""
        devices = self._experiment.devices
        planned = balanced_order(arms, devices, rounds) if rounds else []
        self._observer.stage(stage, len(planned))
        measured = StageLanes()
        for wave, lanes in itertools.groupby(planned, key=lambda lane: lane.wave):
            measured.lanes += self._wave(stage, list(lanes), suite, cap)
            if (wave + 1) % len(arms) == 0 and enough(measured):
                break
        return measured

    def run_one(
        self, stage: str, arm: str, target: Target, suite: Suite, cap: int, order: int = 0
    ) -> MeasuredLane:
        """One lane outside any comparison in time."""
        device = self._experiment.devices[0]
        planned = PlannedLane(arm, device, order, f"1/{device}", order)
        return self._lane(stage, planned, target, suite, cap)

    def _wave(self, stage: str, lanes: Sequence[PlannedLane], suite: Suite, cap: int) -> list[MeasuredLane]:
        """The lanes of one wave, at the same time where there are several devices."""
        arms: Mapping[str, Target] = self._experiment.arms

        def one(lane: PlannedLane) -> MeasuredLane:
            return self._lane(stage, lane, arms[lane.arm], suite, cap)

        if len(lanes) == 1:
            return [one(lanes[0])]
        with ThreadPoolExecutor(len(lanes)) as pool:
            return list(pool.map(one, lanes))

    def _lane(self, stage: str, planned: PlannedLane, target: Target, suite: Suite, cap: int) -> MeasuredLane:
        request = LaneRequest(
            experiment=self._number,
            stage=stage,
            arm=planned.arm,
            block=f"{stage}:{planned.block}",
            order=planned.order,
            wave=planned.wave,
            device=planned.device,
            target=target,
            suite=suite,
            cap=cap,
            canaries=self._experiment.canaries,
            shown=self.shown.get(planned.arm, {}),
        )
        self._observer.lane(planned.arm, planned.device)
        digest, record = (self._run_one_lane or run_lane)(
            self._ledger, request, lambda done, total: self._observer.prompts(planned.arm, done, total)
        )
        self._observer.measured(record)
        return MeasuredLane(digest, record, self._ledger.rows(record))
