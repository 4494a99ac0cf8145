"""An experiment as it was meant, before its first lane: arms, suite, stages, and how it will be decided."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verispec.bench.suites import Suite
from verispec.errors import OptionError
from verispec.lab.decision import DecisionPlan
from verispec.lab.metrics.lane_values import HEADLINE
from verispec.lab.metrics.rates import RATES
from verispec.lab.statistics.evidence import LaneNoise
from verispec.lab.suites.canaries import CanarySuite, load_canaries
from verispec.lab.suites.prompts import load_prompts
from verispec.lab.targets.loading import parse_target
from verispec.lab.targets.target import Target

CONTROL = "control"
ARMS = ("target", "control", "candidate", "reference")


@dataclass(frozen=True, slots=True)
class Stages:
    """Rounds at most of each stage; in a round every device runs every arm once. 0 leaves a stage out.

    ``kept`` is how many candidates of the screen go on. ``invalid_lanes`` is how many lanes of an arm may fail the gate
    before the arm is given up.
    """

    smoke_prompts: int = 2
    screen: int = 2
    screen_cap: int = 128
    confirmation: int = 8
    confirmation_cap: int = 512
    repeat: int = 2
    kept: int = 1
    invalid_lanes: int = 1

    def __post_init__(self) -> None:
        for name in ("screen", "confirmation", "repeat"):
            if getattr(self, name) < 0:
                raise OptionError(f"stages: {name}: expected rounds, found {getattr(self, name)}")
        if not self.screen_cap >= 1 or not self.confirmation_cap >= 1 or self.kept < 1:
            raise OptionError("stages: expected caps and kept of at least 1, found less")


@dataclass(frozen=True, slots=True)
class Experiment:
    """``arms`` are the control and the candidates by name; ``reference`` is the target alone, against which output is
    compared (the control when there is none)."""

    name: str
    arms: Mapping[str, Target]
    suite: Suite
    canaries: CanarySuite
    devices: tuple[str, ...] = ("cpu",)
    intent: str = ""
    notes: str = ""
    metric: str = HEADLINE
    stages: Stages = field(default_factory=Stages)
    plan: DecisionPlan = field(default_factory=DecisionPlan)
    reference: Target | None = None

    def __post_init__(self) -> None:
        if CONTROL not in self.arms or len(self.arms) < 2:
            raise OptionError(f"experiment {self.name}: expected a control and at least one candidate")
        if self.metric not in RATES:
            raise OptionError(f"metric: expected one of {', '.join(RATES)}, found {self.metric!r}")

    @property
    def candidates(self) -> list[str]:
        return [arm for arm in self.arms if arm != CONTROL]

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "name": self.name,
            "intent": self.intent,
            "notes": self.notes,
            "targets": {arm: target.record() for arm, target in self.arms.items()},
            "candidates": self.candidates,
            "reference": None if self.reference is None else self.reference.record(),
            "suite": self.suite.identity(),
            "suite_name": self.suite.name,
            "canary_suite": self.canaries.identity(),
            "devices": list(self.devices),
            "metric": self.metric,
            "stages": dataclasses.asdict(self.stages),
            "plan": plan_record(self.plan),
        }


def plan_record(plan: DecisionPlan) -> dict[str, Any]:
    """The plan as JSON, from which ``plan_of`` makes it again. Its prior is that of unknown effects."""
    return {
        "margin": plan.margin,
        "tail_margin": plan.tail_margin,
        "alpha": plan.alpha,
        "searched": plan.searched,
        "noise": {"squares": plan.noise.squares, "degrees": plan.noise.degrees},
    }


def plan_of(record: Mapping[str, Any]) -> DecisionPlan:
    """The plan of a record."""
    return DecisionPlan(**{**record, "noise": LaneNoise(**record["noise"])})


def load_experiment(path: Path, home: Path | None = None) -> Experiment:
    """The experiment that a TOML file describes. OptionError for what is malformed or read by nothing."""
    return parse_experiment(read_experiment(path), str(path), home)


def read_experiment(path: Path) -> dict[str, Any]:
    """The content of an experiment's file, for ``parse_experiment``; its name is the file's if it has none."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: expected TOML, found {error}") from error
    return {"name": path.stem, **content}


def parse_experiment(content: Mapping[str, Any], where: str, home: Path | None = None) -> Experiment:
    """An experiment from a file's content: ``[target]`` is what all arms share, ``[control]`` and each
    ``[[candidate]]`` are what they add; lists and tables of an arm stand in place of the shared ones."""
    values = {name: value for name, value in content.items() if name not in ARMS}
    shared = content.get("target", {})
    arms = {
        CONTROL: parse_target({"name": CONTROL, **shared, **content.get(CONTROL, {})}, f"{where}: control")
    }
    for index, table in enumerate(content.get("candidate", ()), 1):
        target = parse_target(
            {"name": f"candidate-{index}", **shared, **table}, f"{where}: candidate {index}"
        )
        if target.name in arms or target.name == CONTROL:
            raise OptionError(f"{where}: expected each arm's name once, found {target.name!r} twice")
        arms[target.name] = target
    reference = content.get("reference")
    suite, canaries = values.pop("suite", "realistic-12"), values.pop("canaries", "canaries")
    stages, decision = values.pop("stages", {}), values.pop("decision", {})
    known = {one.name for one in dataclasses.fields(Experiment)} - {"arms", "plan", "reference"}
    unknown = sorted(set(values) - known)
    if unknown:
        raise OptionError(f"{where}: expected only {', '.join(sorted(known))}, found {unknown[0]!r}")
    return Experiment(
        arms=arms,
        suite=load_prompts(suite, home),
        canaries=load_canaries(canaries, home),
        stages=_settings(Stages, stages, f"{where}: stages"),
        plan=_settings(DecisionPlan, decision, f"{where}: decision"),
        reference=None
        if reference is None
        else parse_target({"name": "reference", **shared, **reference}, f"{where}: reference"),
        **{**values, "devices": tuple(values.get("devices", ("cpu",)))},
    )


def _settings(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    try:
        return kind(**values)
    except TypeError as error:
        names = ", ".join(one.name for one in dataclasses.fields(kind))
        raise OptionError(f"{where}: expected only {names}, found {sorted(values)}: {error}") from error
