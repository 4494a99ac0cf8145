"""A search as it was meant: the space, the experiment that its configurations are arms of, and how it is halved."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.decision import DecisionPlan
from verispec.lab.experiment.spec import CONTROL, Experiment, parse_experiment, read_experiment
from verispec.lab.ledger.objects import canonical_json
from verispec.lab.search.space import parse_space
from verispec.lab.settings import build, table, tables

OWN = ("knob", "search", "target", "control", "candidate", "reference")


@dataclass(frozen=True, slots=True)
class Halving:
    """How a search goes.

    candidates: configurations at most; of a larger space so many are drawn with ``seed``.
    rungs: comparisons at most; the first runs ``first`` rounds, each further one ``growth`` times as many.
    risk: chance that the best configuration is ever given up, all rungs together.
    lanes: lanes at most in all rungs; 0 is no limit.
    """

    candidates: int = 16
    seed: int = 0
    first: int = 2
    growth: int = 2
    rungs: int = 3
    risk: float = 0.1
    lanes: int = 0

    def __post_init__(self) -> None:
        for name, least in (("candidates", 1), ("first", 1), ("growth", 1), ("rungs", 1), ("lanes", 0)):
            if getattr(self, name) < least:
                raise OptionError(f"search: {name}: expected at least {least}, found {getattr(self, name)}")
        if not 0 < self.risk < 0.5:
            raise OptionError(f"search: risk: expected a chance between 0 and 0.5, found {self.risk!r}")

    def rounds(self, rung: int) -> int:
        """Rounds of rung 0, 1, ...; in a round every device runs every arm once."""
        return self.first * int(self.growth**rung)


@dataclass(frozen=True, slots=True)
class Search:
    """``experiment`` holds every configuration as an arm; its screen cap is that of all rungs."""

    experiment: Experiment
    halving: Halving
    fingerprint: str

    @property
    def name(self) -> str:
        return self.experiment.name

    def giving_up(self, plan: DecisionPlan) -> DecisionPlan:
        """The level at which one comparison may give a configuration up.

        The best one is compared with the control and with every other, so the risk is divided by how many there are.
        """
        return dataclasses.replace(plan, alpha=self.halving.risk, searched=len(self.experiment.candidates))

    def confirmation(self, chosen: list[str]) -> Experiment:
        """The experiment on fresh data: the control and the chosen, without a screen."""
        arms = {arm: self.experiment.arms[arm] for arm in (CONTROL, *chosen)}
        stages = dataclasses.replace(self.experiment.stages, screen=0)
        name = f"{self.name}: confirmation"
        return dataclasses.replace(self.experiment, name=name, arms=arms, stages=stages)


def load_search(path: Path, home: Path | None = None) -> Search:
    """The search that a TOML file describes. OptionError for what is malformed or read by nothing."""
    return parse_search(read_experiment(path), str(path), home)


def parse_search(content: Mapping[str, Any], where: str, home: Path | None = None) -> Search:
    """From a file's content: an experiment's, with ``[[knob]]`` and ``[search]`` in place of candidates."""
    if "candidate" in content:
        raise OptionError(f"{where}: expected [[knob]] tables, found [[candidate]], which `lab run` reads")
    space = parse_space(tables(content, "knob", where), where)
    halving = _halving(table(content, "search", where), f"{where}: search")
    settings = {name: value for name, value in content.items() if name not in OWN}
    shared = table(content, "target", where)
    control = {**shared, **table(content, "control", where)}
    configurations = space.configurations(shared, control, halving.candidates, halving.seed)
    arms = [{**own, "name": name} for name, own in configurations.items()]
    whole = {**settings, "control": control, "candidate": arms}
    if "reference" in content:
        whole["reference"] = {**shared, **table(content, "reference", where)}
    fingerprint = hashlib.sha256(canonical_json(_plain(content))).hexdigest()
    return Search(parse_experiment(whole, where, home), halving, fingerprint)


def _halving(values: Mapping[str, Any], where: str) -> Halving:
    halving: Halving = build(Halving, values, where)
    return halving


def _plain(value: Any) -> Any:
    """TOML as JSON: dates become text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool) else str(value)
