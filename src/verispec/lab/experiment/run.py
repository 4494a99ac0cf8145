"""From an experiment's description to a verdict on each candidate, everything on the way written down."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from verispec.lab.decision import Decision, DecisionPlan, Verdict, decide, promote
from verispec.lab.decision.decide import invalid
from verispec.lab.decision.promotion import REFERENCE
from verispec.lab.experiment.decisions import DecisionInput, decision_record
from verispec.lab.experiment.measured import StageLanes
from verispec.lab.experiment.needs import check_inherited
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.promotion_lanes import PromotionLanes
from verispec.lab.experiment.smoke import run_smoke
from verispec.lab.experiment.spec import CONTROL, Experiment
from verispec.lab.experiment.stage import StageRunner
from verispec.lab.lane.run import LaneRunner
from verispec.lab.ledger.ledger import Ledger

Record = dict[str, Any]
SETTLED = (Verdict.REGRESSION, Verdict.NO_DIFFERENCE)


def run_experiment(
    ledger: Ledger,
    experiment: Experiment,
    observer: Observer | None = None,
    run_one_lane: LaneRunner | None = None,
    selected_on: Collection[str] = (),
) -> Record:
    """The record of a finished experiment, which is in the ledger. Raises DiskFullError and what interrupts it;
    OptionError when an arm would inherit what sets another apart.

    ``run_one_lane`` says how a lane is run, if not here. ``selected_on`` are lanes that chose the candidates before.
    """
    check_inherited(experiment)
    ledger.adopt()
    return ExperimentRun(ledger, experiment, observer or Observer(), run_one_lane, selected_on).run()


class ExperimentRun:
    """One experiment while it runs. Lanes of one stage are never mixed with those of another."""

    def __init__(
        self,
        ledger: Ledger,
        experiment: Experiment,
        observer: Observer,
        run_one_lane: LaneRunner | None = None,
        selected_on: Collection[str] = (),
    ) -> None:
        self._ledger = ledger
        self._experiment = experiment
        self._observer = observer
        self._number = uuid.uuid4().hex[:10]
        self._runner = StageRunner(ledger, experiment, self._number, observer, run_one_lane)
        self._verdicts: dict[str, Decision] = {}
        self._decisions: list[str] = []
        self._selected_on = set(selected_on)
        self._second_controls: list[str] = []

    def run(self) -> Record:
        """All stages, and the record of what they came to."""
        facts = {"experiment": self._number, **self._experiment.record(), "began": time.time()}
        self._ledger.add({"kind": "experiment-begun", **facts})
        going = self._screen(self._smoke())
        confirmed = self._confirm(going)
        if confirmed is not None:
            self._repeat(confirmed)
        record = {
            "kind": "experiment",
            **facts,
            "ended": time.time(),
            "decisions": self._decisions,
            "second_controls": self._second_controls,
            "verdicts": {arm: decision.as_dict() for arm, decision in self._verdicts.items()},
            "verdict": "; ".join(f"{arm}: {decision.text}" for arm, decision in self._verdicts.items()),
        }
        self._ledger.add(record)
        return record

    def _smoke(self) -> list[str]:
        """The candidates that may be measured; none when the control may not."""
        smoke = run_smoke(self._experiment, self._runner, self._observer)
        self._second_controls = smoke.second_controls
        for arm, decision in smoke.verdicts.items():
            self._settle("smoke", arm, decision, smoke.lanes, self._experiment.plan)
        return [arm for arm in self._experiment.candidates if arm not in smoke.verdicts]

    def _screen(self, going: Sequence[str]) -> list[str]:
        """The candidates that go on: those that nothing speaks against, the best first."""
        stages = self._experiment.stages
        if not going or not stages.screen:
            return list(going)
        lanes, decisions = self._stage("screen", going, stages.screen, stages.screen_cap)
        self._selected_on |= {lane.record["lane"] for lane in lanes.lanes}
        refused = (*SETTLED, Verdict.INVALID)
        alive = [arm for arm in going if decisions[arm].verdict not in refused]
        alive.sort(key=lambda arm: -(decisions[arm].effect or 0.0))
        return alive[: stages.kept]

    def _confirm(self, going: Sequence[str]) -> StageLanes | None:
        stages = self._experiment.stages
        if not going or not stages.confirmation:
            return None
        lanes, _ = self._stage("confirmation", going, stages.confirmation, stages.confirmation_cap)
        return lanes

    def _repeat(self, confirmed: StageLanes) -> None:
        """Fresh servers once more, for those whose gain is above the margin; then the question of promotion."""
        stages = self._experiment.stages
        going = [
            arm for arm, decision in self._verdicts.items() if self._gained(decision) and confirmed.of(arm)
        ]
        if not going or not stages.repeat:
            return
        judged = len({lane.record["arm"] for lane in confirmed.lanes}) - 1
        repeated, _ = self._stage("repeat", going, stages.repeat, stages.confirmation_cap)
        reference = None
        if self._experiment.reference is not None:
            suite, cap = self._experiment.suite, stages.confirmation_cap
            reference = [self._runner.run_one(REFERENCE, REFERENCE, self._experiment.reference, suite, cap)]
        for arm in going:
            lanes = PromotionLanes(
                arm=arm,
                confirmed=confirmed,
                repeated=repeated.of(arm),
                reference=reference,
                selected_on=frozenset(self._selected_on),
                reuse=self._experiment.arms[arm].profile.reuse,
            )
            self._promote(lanes, self._plan(judged))

    def _promote(self, lanes: PromotionLanes, plan: DecisionPlan) -> None:
        metric, confirmed = self._experiment.metric, lanes.confirmed
        control, candidate = confirmed.values(CONTROL, metric), confirmed.values(lanes.arm, metric)
        decision = promote(control, candidate, plan, lanes.evidence())
        self._settle("promotion", lanes.arm, decision, confirmed, plan, lanes)

    def _stage(
        self, stage: str, going: Sequence[str], rounds: int, cap: int
    ) -> tuple[StageLanes, dict[str, Decision]]:
        """The lanes of a stage and what they say of each candidate. A repeat runs all its rounds, whatever they say."""
        plan = self._plan(len(going))

        def enough(lanes: StageLanes) -> bool:
            decisions = self._judge(going, lanes, plan)
            for arm, decision in decisions.items():
                self._observer.decided(stage, arm, decision)
            return stage != "repeat" and all(
                self._is_settled(stage, arm, lanes, decision) for arm, decision in decisions.items()
            )

        suite = self._experiment.suite
        lanes = self._runner.run(stage, [CONTROL, *going], rounds, suite, cap, enough)
        decisions = self._judge(going, lanes, plan)
        for arm, decision in decisions.items():
            self._settle(stage, arm, decision, lanes, plan)
        return lanes, decisions

    def _judge(self, going: Sequence[str], lanes: StageLanes, plan: DecisionPlan) -> dict[str, Decision]:
        """What the lanes say of each candidate; of one whose lanes, or the control's, fail too often, that they do."""
        metric = self._experiment.metric
        decisions = {}
        for arm in going:
            complaints = self._given_up(arm, lanes)
            if complaints:
                decisions[arm] = invalid(complaints)
            else:
                decisions[arm] = decide(lanes.values(CONTROL, metric), lanes.values(arm, metric), plan)
        return decisions

    def _given_up(self, arm: str, lanes: StageLanes) -> list[str]:
        allowed = self._experiment.stages.invalid_lanes
        bad = [one for one in (CONTROL, arm) if len(lanes.of(one)) - len(lanes.valid(one)) > allowed]
        return [reason for one in bad for reason in lanes.complaints(one)]

    def _is_settled(self, stage: str, arm: str, lanes: StageLanes, decision: Decision) -> bool:
        """Whether more lanes could not change what happens next. An improvement goes on to the margin."""
        if decision.verdict in SETTLED or self._given_up(arm, lanes):
            return True
        return stage == "confirmation" and self._gained(decision)

    def _gained(self, decision: Decision) -> bool:
        low, _ = decision.interval
        return decision.verdict is Verdict.IMPROVEMENT and low > self._experiment.plan.log_margin

    def _settle(
        self,
        stage: str,
        arm: str,
        decision: Decision,
        lanes: StageLanes,
        plan: DecisionPlan,
        promotion: PromotionLanes | None = None,
    ) -> None:
        """Writes a decision down; the last one of a candidate is its verdict, but a repeat alone decides nothing."""
        given = DecisionInput(self._number, stage, arm, self._experiment.metric, plan, promotion)
        self._decisions.append(self._ledger.add(decision_record(given, decision, lanes)))
        if stage != "repeat":
            self._verdicts[arm] = decision
        self._observer.settled(stage, arm, decision)

    def _plan(self, searched: int) -> DecisionPlan:
        """For ``searched`` candidates, judged by the noise of their own lanes: past controls only plan."""
        return replace(self._experiment.plan, searched=searched)
