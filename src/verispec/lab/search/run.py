"""One search: smoke, rungs, a choice, fresh data for the chosen. Stopped at any point, it goes on from there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from verispec.lab.decision import Decision
from verispec.lab.experiment.decisions import DecisionInput, decision_record
from verispec.lab.experiment.measured import StageLanes
from verispec.lab.experiment.needs import check_inherited
from verispec.lab.experiment.observer import Observer
from verispec.lab.experiment.run import run_experiment
from verispec.lab.experiment.smoke import run_smoke
from verispec.lab.experiment.spec import CONTROL
from verispec.lab.experiment.stage import StageRunner
from verispec.lab.lane.run import LaneRunner
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.search.recall import RecalledLanes
from verispec.lab.search.search import Search
from verispec.lab.search.standings import Standing, standings
from verispec.lab.wording import counted

Record = dict[str, Any]


def run_search(
    ledger: Ledger,
    search: Search,
    observer: Observer | None = None,
    run_one_lane: LaneRunner | None = None,
    anew: bool = False,
) -> Record:
    """The record of a finished search, which is in the ledger. One that was interrupted goes on, unless ``anew``.

    A confirmation that was interrupted begins again: its lanes are never pooled with others.
    """
    check_inherited(search.experiment)
    ledger.adopt()
    begun = None if anew else unfinished(ledger, search)
    if begun is None:
        begun = _begin(ledger, search)
    return SearchRun(ledger, search, begun, observer or Observer(), run_one_lane).run()


def unfinished(ledger: Ledger, search: Search) -> Record | None:
    """The newest beginning of the same search that has no end."""
    ended = {record["experiment"] for _, record in ledger.records("search")}
    begun = [record for _, record in ledger.records("search-begun")]
    same = [
        one for one in begun if one["fingerprint"] == search.fingerprint and one["experiment"] not in ended
    ]
    return same[-1] if same else None


def _begin(ledger: Ledger, search: Search) -> Record:
    """The search and the experiment that its rungs are, in the ledger."""
    facts = {"experiment": uuid.uuid4().hex[:10], "began": time.time()}
    begun = {
        "kind": "search-begun",
        **facts,
        "fingerprint": search.fingerprint,
        "name": search.name,
    }
    ledger.add(begun)
    ledger.add({"kind": "experiment-begun", **search.experiment.record(), **facts})
    return begun


@dataclass(slots=True)
class _State:
    """What is known so far: lanes of all rungs, the last decision of each arm, who is still in."""

    lanes: StageLanes = field(default_factory=StageLanes)
    verdicts: dict[str, Decision] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    rungs: list[Record] = field(default_factory=list)
    alive: list[Standing] = field(default_factory=list)
    second_controls: list[str] = field(default_factory=list)
    ended: str = ""


class SearchRun:
    """A search while it runs. All its rungs are one screen, looked at after each; what is chosen meets fresh lanes."""

    def __init__(
        self,
        ledger: Ledger,
        search: Search,
        begun: Mapping[str, Any],
        observer: Observer,
        run_one_lane: LaneRunner | None,
    ) -> None:
        self._ledger = ledger
        self._search = search
        self._experiment = search.experiment
        self._begun = begun
        self._number = str(begun["experiment"])
        self._plan = replace(self._experiment.plan, searched=len(self._experiment.candidates))
        self._observer = observer
        self._run_one_lane = run_one_lane
        self._recalled = RecalledLanes(ledger, self._number, run_one_lane)
        self._runner = StageRunner(ledger, self._experiment, self._number, observer, self._recalled)
        self._state = _State()

    def run(self) -> Record:
        going = self._smoke()
        self._climb(going)
        state = self._state
        chosen = [one.arm for one in state.alive[: self._experiment.stages.kept]]
        self._end_screen()
        confirmed = None
        if chosen and self._experiment.stages.confirmation:
            lanes = [lane.record["lane"] for lane in state.lanes.lanes]
            experiment = self._search.confirmation(chosen)
            confirmed = run_experiment(self._ledger, experiment, self._observer, self._run_one_lane, lanes)
        record = {
            "kind": "search",
            **{name: self._begun[name] for name in ("experiment", "fingerprint", "name", "began")},
            "ended": time.time(),
            "candidates": self._experiment.candidates,
            "risk": self._search.halving.risk,
            "second_controls": state.second_controls,
            "rungs": state.rungs,
            "why_ended": state.ended,
            "alive": [{"arm": one.arm, **one.decision.as_dict()} for one in state.alive],
            "chosen": chosen,
            "confirmation": None if confirmed is None else confirmed["experiment"],
            "verdicts": {} if confirmed is None else confirmed["verdicts"],
            "verdict": "nothing to confirm" if confirmed is None else confirmed["verdict"],
        }
        self._ledger.add(record)
        return record

    def _smoke(self) -> list[str]:
        """The configurations that start, answer, and are not the control in disguise."""
        smoke = run_smoke(
            self._experiment,
            self._runner,
            self._observer,
            beginning=lambda arm: self._recalled.expect("smoke", [arm]),
        )
        self._state.second_controls = smoke.second_controls
        for arm, decision in smoke.verdicts.items():
            self._settle("smoke", arm, decision, smoke.lanes)
        return [arm for arm in self._experiment.candidates if arm not in smoke.verdicts]

    def _climb(self, going: Sequence[str]) -> None:
        """Rung after rung, until one configuration is left, or the rungs or the lanes are used up."""
        halving, state = self._search.halving, self._state
        arms = list(going)
        for rung in range(halving.rungs):
            needed = halving.rounds(rung) * len(self._experiment.devices) * (len(arms) + 1)
            used = len(state.lanes.lanes)
            if not arms:
                state.ended = "no configuration is left that could gain what matters"
                return
            if rung and len(arms) <= self._experiment.stages.kept:
                state.ended = "the others are behind"
                return
            if halving.lanes and used + needed > halving.lanes:
                state.ended = (
                    f"the next rung needs {counted(needed, 'lane')}, {halving.lanes - used} are left"
                )
                return
            arms = self._rung(rung, arms)
        state.ended = (
            "no configuration is left that could gain what matters" if not arms else "all rungs are done"
        )

    def _rung(self, rung: int, arms: Sequence[str]) -> list[str]:
        """The configurations that are still in after it."""
        stage, experiment, state = f"rung-{rung + 1}", self._experiment, self._state
        present = [CONTROL, *arms]
        self._recalled.expect(stage, present)
        cap = experiment.stages.screen_cap
        rounds = self._search.halving.rounds(rung)
        measured = self._runner.run(stage, present, rounds, experiment.suite, cap, lambda lanes: False)
        state.lanes.lanes += measured.lanes
        found = self._standings(arms)
        for one in found:
            self._settle(stage, one.arm, one.decision, state.lanes)
            self._observer.decided(stage, one.arm, one.decision)
        state.alive = [one for one in found if not one.behind]
        state.rungs.append(
            {
                "stage": stage,
                "rounds": rounds,
                "lanes": len(measured.lanes),
                "arms": list(arms),
                "given_up": {one.arm: one.behind for one in found if one.behind},
            }
        )
        return [one.arm for one in state.alive]

    def _standings(self, arms: Sequence[str]) -> list[Standing]:
        lanes, metric = self._state.lanes, self._experiment.metric
        allowed = self._experiment.stages.invalid_lanes
        broken = [arm for arm in arms if len(lanes.of(arm)) - len(lanes.valid(arm)) > allowed]
        return standings(
            lanes.values(CONTROL, metric),
            {arm: lanes.values(arm, metric) for arm in arms},
            {arm: lanes.complaints(arm) for arm in broken},
            self._plan,
            self._search.giving_up(self._plan),
        )

    def _settle(self, stage: str, arm: str, decision: Decision, lanes: StageLanes) -> None:
        given = DecisionInput(self._number, stage, arm, self._experiment.metric, self._plan)
        self._state.decisions.append(self._ledger.add(decision_record(given, decision, lanes)))
        self._state.verdicts[arm] = decision
        self._observer.settled(stage, arm, decision)

    def _end_screen(self) -> None:
        """The screen as an experiment of its own, so that whoever asks finds every configuration in it."""
        self._ledger.refresh_index()
        if self._ledger.index.of_experiment(self._number, "experiment"):
            return  # it had ended before the search was interrupted
        verdicts = self._state.verdicts
        self._ledger.add(
            {
                "kind": "experiment",
                **self._experiment.record(),
                "experiment": self._number,
                "began": self._begun["began"],
                "ended": time.time(),
                "decisions": self._state.decisions,
                "second_controls": self._state.second_controls,
                "verdicts": {arm: decision.as_dict() for arm, decision in verdicts.items()},
                "verdict": "; ".join(f"{arm}: {decision.text}" for arm, decision in verdicts.items()),
            }
        )
