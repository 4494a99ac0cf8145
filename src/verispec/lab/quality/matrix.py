"""The quality matrix: every arm answers all tasks on fresh servers, in turned order, after a calibration of a few."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verispec.errors import OptionError
from verispec.lab.decision import PlannedLane, balanced_order
from verispec.lab.experiment.measured import MeasuredLane
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner, run_lane
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.quality.figures import request_wide_figure
from verispec.lab.quality.paired import compare_answers, compare_outputs, compare_scores
from verispec.lab.quality.task_scores import rotation, score_lane, score_summary, task_suite, unsteady
from verispec.lab.suites.tasks import Task, TaskSuite

Record = dict[str, Any]
CALIBRATION, MATRIX = "calibration", "matrix"
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
        """One lane an arm and pass, arms in balanced order."""
        devices = self._experiment.devices[:1]
        planned = balanced_order(list(self._experiment.arms), devices, passes)
        self._observer.stage(stage, len(planned))
        seen = _Seen({arm: [] for arm in self._experiment.arms})
        for number, lane in enumerate(planned):
            turn = number // len(self._experiment.arms)
            seen.lanes[lane.arm].append(self._lane(stage, lane, tasks, rotation(len(tasks), passes, turn)))
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
        compared = {} if invalid else {arm: self._compare(matrix, arm) for arm in experiment.candidates}
        record = {
            "kind": "quality",
            "experiment": self._number,
            "name": experiment.name,
            "intent": experiment.intent,
            "notes": experiment.notes,
            "targets": {arm: target.record() for arm, target in experiment.arms.items()},
            "candidates": experiment.candidates,
            "tasks": {"name": plan.tasks.name, "sha256": plan.tasks.digest, "count": len(plan.tasks.tasks)},
            "passes": plan.passes,
            "cap": plan.cap,
            "alpha": plan.alpha,
            "began": self._began,
            "ended": time.time(),
            "calibration": {
                arm: self._arm(plan.tasks.calibration, lanes) for arm, lanes in calibration.lanes.items()
            },
            "arms": {arm: self._arm(plan.tasks.tasks, lanes) for arm, lanes in matrix.lanes.items()},
            "lanes": {CALIBRATION: calibration.digests(), MATRIX: matrix.digests()},
            "compared": compared,
            "invalid": list(invalid),
            "verdict": "invalid"
            if invalid
            else "; ".join(f"{arm}: {one['verdict']}" for arm, one in compared.items()),
        }
        self._ledger.add(record)
        return record

    def _arm(self, tasks: Sequence[Task], lanes: Sequence[MeasuredLane]) -> Record:
        """Scores pass by pass; the request-wide rate of each is of the same tasks, so they may stand together."""
        passes = [score_lane(tasks, lane.rows) for lane in lanes]
        rates = [request_wide_figure(lane.record) for lane in lanes]
        return {
            "passes": [score_summary(scores) for scores in passes],
            "unsteady": unsteady(passes),
            "rates": [None if rate is None else rate.record() for rate in rates],
        }

    def _compare(self, seen: _Seen, arm: str) -> Record:
        """A candidate against the control. The strict score decides; a loss in either is told."""
        tasks, plan = self._plan.tasks.tasks, self._plan
        level = plan.alpha / len(self._experiment.candidates)
        control, candidate = seen.lanes[CONTROL], seen.lanes[arm]
        first, second = ([score_lane(tasks, lane.rows) for lane in lanes] for lanes in (control, candidate))
        strict = compare_scores(first, second, "strict", level)
        lenient = compare_scores(first, second, "lenient", level)
        outputs = compare_outputs([lane.rows for lane in control], [lane.rows for lane in candidate])
        return {
            "strict": strict,
            "lenient": lenient,
            "answers": compare_answers(first, second),
            "outputs": outputs,
            "verdict": _verdict(strict, lenient, outputs),
        }


def _verdict(strict: Mapping[str, Any], lenient: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    if outputs["exactness"] == "token-exact":
        return "identical output"
    worse = [name for name, one in (("strict", strict), ("lenient", lenient)) if one["verdict"] == "worse"]
    if worse:
        return f"worse ({', '.join(worse)} score)"
    if strict["verdict"] == "better":
        return "better (strict score)"
    most = 100 * strict["lost"]["upper_95"]
    return f"no difference shown (at most {most:.1f}% of tasks lost)"
