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
from verispec.lab.settings import build, checked, table, tables
from verispec.lab.statistics.evidence import LaneNoise
from verispec.lab.suites.canaries import CanarySuite, load_canaries
from verispec.lab.suites.prompts import load_prompts
from verispec.lab.targets.devices import check_devices
from verispec.lab.targets.loading import parse_target
from verispec.lab.targets.target import Target

CONTROL = "control"
ARMS = ("target", "control", "candidate", "reference")
TEXTS = ("name", "intent", "notes", "metric", "suite", "canaries")
DECISION = ("margin", "tail_margin", "alpha")
"""What a file may say about the decision; how many were searched and what is known of the noise are found out."""


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
        for least, names in (
            (0, ("screen", "confirmation", "repeat", "invalid_lanes")),
            (1, ("smoke_prompts", "screen_cap", "confirmation_cap", "kept")),
        ):
            for name in names:
                if getattr(self, name) < least:
                    found = getattr(self, name)
                    raise OptionError(f"stages: {name}: expected at least {least}, found {found}")


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
        reference = [] if self.reference is None else [self.reference]
        check_devices(self.devices, [*self.arms.values(), *reference], f"experiment {self.name}: devices")

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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise OptionError(f"{path}: expected TOML, found {error}") from error
    return {"name": path.stem, **content}


def parse_experiment(content: Mapping[str, Any], where: str, home: Path | None = None) -> Experiment:
    """An experiment from a file's content: ``[target]`` is what all arms share, ``[control]`` and each
    ``[[candidate]]`` are what they add; lists and tables of an arm stand in place of the shared ones."""
    values = {name: value for name, value in content.items() if name not in ARMS}
    shared = table(content, "target", where)
    own = table(content, CONTROL, where)
    arms = {CONTROL: parse_target({"name": CONTROL, **shared, **own}, f"{where}: control")}
    for index, own in enumerate(tables(content, "candidate", where), 1):
        target = parse_target({"name": f"candidate-{index}", **shared, **own}, f"{where}: candidate {index}")
        if target.name in arms or target.name == CONTROL:
            raise OptionError(f"{where}: expected each arm's name once, found {target.name!r} twice")
        arms[target.name] = target
    reference = table(content, "reference", where) if "reference" in content else None
    stages, decision = table(values, "stages", where), table(values, "decision", where)
    devices = values.get("devices", ("cpu",))
    unknown = sorted(set(values) - {*TEXTS, "devices", "stages", "decision"})
    if unknown:
        known = sorted({*TEXTS, *ARMS, "devices", "stages", "decision"})
        raise OptionError(f"{where}: expected only {', '.join(known)}, found {unknown[0]!r}")
    texts = {name: checked(values[name], str, f"{where}: {name}") for name in TEXTS if name in values}
    suite, canaries = texts.pop("suite", "realistic-12"), texts.pop("canaries", "canaries")
    return Experiment(
        arms=arms,
        suite=load_prompts(suite, home),
        canaries=load_canaries(canaries, home),
        stages=build(Stages, stages, f"{where}: stages"),
        plan=build(DecisionPlan, decision, f"{where}: decision", DECISION),
        reference=None
        if reference is None
        else parse_target({"name": "reference", **shared, **reference}, f"{where}: reference"),
        **{**texts, "devices": tuple(checked(devices, tuple[str, ...], f"{where}: devices"))},
    )
