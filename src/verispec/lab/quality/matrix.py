"""The quality matrix: every arm answers all tasks on fresh servers, in turned order, after a calibration of a few."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from verispec.errors import OptionError
from verispec.lab.decision import PlannedLane, balanced_order
from verispec.lab.experiment.measured import MeasuredLane
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner, run_lane
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.quality.scored import CALIBRATION, MATRIX, derived_quality
from verispec.lab.quality.task_scores import rotation, score_lane, score_summary, task_suite
from verispec.lab.suites.tasks import Task, TaskSuite

Record = dict[str, Any]
MOST_CUT = 0.25
"""More answers than this share cut off: the cap is measured, and not the model."""


@dataclass(frozen=True, slots=True)
class QualityPlan:
    """``passes`` is how often each arm answers all tasks; ``cap`` the most tokens of an answer; ``alpha`` the level of
    the paired test, divided by the number of candidates."""

    tasks: TaskSuite
    passes: int = 2
    cap: int = 256
    calibrate: bool = True
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if self.passes < 1 or self.cap < 1 or not 0 < self.alpha < 1:
            raise OptionError("quality: expected passes and cap of at least 1 and alpha between 0 and 1")
        if self.calibrate and not self.tasks.calibration:
            raise OptionError(
                f"quality: suite {self.tasks.name}: expected tasks marked calibration, found none"
            )


@dataclass(slots=True)
class _Seen:
    lanes: dict[str, list[MeasuredLane]] = field(default_factory=dict)

    def digests(self) -> dict[str, list[str]]:
        return {arm: [lane.digest for lane in lanes] for arm, lanes in self.lanes.items()}


def run_quality(
    ledger: Ledger,
    experiment: Experiment,
    plan: QualityPlan,
    observer: Observer | None = None,
    run_one_lane: LaneRunner | None = None,
) -> Record:
    """The record of the matrix, which is in the ledger. Arms, canaries and devices are those of ``experiment``."""
    ledger.adopt()
    return QualityRun(ledger, experiment, plan, observer or Observer(), run_one_lane or run_lane).run()


class QualityRun:
    """One matrix while it runs."""

    def __init__(
        self,
        ledger: Ledger,
        experiment: Experiment,
        plan: QualityPlan,
        observer: Observer,
        run_one_lane: LaneRunner,
    ) -> None:
        self._ledger = ledger
        self._experiment = experiment
        self._plan = plan
        self._observer = observer
        self._run_one_lane = run_one_lane
        self._number = uuid.uuid4().hex[:10]
        self._began = time.time()

    def run(self) -> Record:
        plan = self._plan
        calibration = _Seen()
        if plan.calibrate:
            calibration = self._ask_all(CALIBRATION, plan.tasks.calibration, 1)
            objections = self._objections(calibration, plan.tasks.calibration)
            if objections:
                return self._end(calibration, _Seen(), objections)
        matrix = self._ask_all(MATRIX, plan.tasks.tasks, plan.passes)
        return self._end(calibration, matrix, self._invalid(matrix))

    def _ask_all(self, stage: str, tasks: Sequence[Task], passes: int) -> _Seen:
        """One lane an arm and pass. Passes are dealt over the devices, which work at the same time; all arms of a pass
        run on one device, in balanced order."""
        arms, devices = list(self._experiment.arms), self._experiment.devices[:passes]
        planned = balanced_order(arms, devices, math.ceil(passes / len(devices)))
        self._observer.stage(stage, passes * len(arms))

        def on(place: int) -> list[tuple[int, MeasuredLane]]:
            found = []
            own = [lane for lane in planned if lane.device == devices[place]]
            for number, lane in enumerate(own):
                turn = place + number // len(arms) * len(devices)
                if turn < passes:
                    start = rotation(len(tasks), passes, turn)
                    found.append((turn, self._lane(stage, lane, tasks, start)))
            return found

        with ThreadPoolExecutor(len(devices)) as pool:
            measured = [one for found in pool.map(on, range(len(devices))) for one in found]
        seen = _Seen({arm: [] for arm in arms})
        for _, lane in sorted(measured, key=lambda one: one[0]):
            seen.lanes[lane.record["arm"]].append(lane)
        return seen

    def _lane(self, stage: str, planned: PlannedLane, tasks: Sequence[Task], start: int) -> MeasuredLane:
        name = self._plan.tasks.name
        request = LaneRequest(
            experiment=self._number,
            stage=stage,
            arm=planned.arm,
            block=f"{stage}:{planned.block}",
            order=planned.order,
            wave=planned.wave,
            device=planned.device,
            target=self._experiment.arms[planned.arm],
            suite=task_suite(
                f"{name}:{stage}" if stage == CALIBRATION else name, tasks, self._plan.cap, start
            ),
            cap=self._plan.cap,
            canaries=self._experiment.canaries,
            window=None,
        )
        self._observer.lane(planned.arm, planned.device)
        digest, record = self._run_one_lane(
            self._ledger, request, lambda done, total: self._observer.prompts(planned.arm, done, total)
        )
        self._observer.measured(record)
        return MeasuredLane(digest, record, self._ledger.rows(record))

    def _invalid(self, seen: _Seen) -> list[str]:
        lanes = [lane for arm in seen.lanes.values() for lane in arm if not lane.valid]
        return [
            f"{lane.record['arm']}: lane {lane.record['lane']}: {one}"
            for lane in lanes
            for one in lane.reasons
        ]

    def _objections(self, seen: _Seen, tasks: Sequence[Task]) -> list[str]:
        """Why the matrix would say nothing; a candidate that does badly here is its own result, the control is not."""
        found = self._invalid(seen)
        for arm, (lane,) in seen.lanes.items():
            counts = score_summary(score_lane(tasks, lane.rows))
            if counts["truncated"] > MOST_CUT * len(tasks):
                cut = f"{counts['truncated']} of {len(tasks)} answers were cut at {self._plan.cap} tokens"
                found.append(f"{arm}: {cut}: a larger cap is needed")
            if arm == CONTROL and counts["lenient"] == 0:
                found.append(f"{arm}: it solves none of {len(tasks)} tasks: they cannot show a loss")
        return found

    def _end(self, calibration: _Seen, matrix: _Seen, invalid: Sequence[str]) -> Record:
        plan, experiment = self._plan, self._experiment
        record = {
            "kind": "quality",
            "experiment": self._number,
            "name": experiment.name,
            "intent": experiment.intent,
            "notes": experiment.notes,
            "targets": {arm: target.record() for arm, target in experiment.arms.items()},
            "candidates": experiment.candidates,
            "tasks": {
                "name": plan.tasks.name,
                "sha256": plan.tasks.digest,
                "count": len(plan.tasks.tasks),
                "tasks": [asdict(task) for task in plan.tasks.tasks],
            },
            "passes": plan.passes,
            "devices": list(experiment.devices[: plan.passes]),
            "cap": plan.cap,
            "alpha": plan.alpha,
            "began": self._began,
            "ended": time.time(),
            "lanes": {CALIBRATION: calibration.digests(), MATRIX: matrix.digests()},
            "invalid": list(invalid),
        }
        record |= derived_quality(self._ledger, record)
        self._ledger.add(record)
        return record
