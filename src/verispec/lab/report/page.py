"""From an experiment's facts to HTML: the sections that the report and the dashboard share, and the report itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from verispec import __version__
from verispec.lab.folders import without_folders
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.summary import INFERRED
from verispec.lab.report import text
from verispec.lab.report.candidate_facts import CandidateFacts, candidate_facts
from verispec.lab.report.experiment_facts import ExperimentFacts, experiment_called, read_experiment_facts
from verispec.lab.report.gate_facts import invalid_lanes, rules_held
from verispec.lab.report.identity_facts import ArmIdentity, Difference, arm_identity, difference
from verispec.lab.report.lane_facts import LaneReader
from verispec.lab.report.plots.factors import FactorPoint, factor_points, plot_factors
from verispec.lab.report.plots.intervals import Estimate, plot_intervals
from verispec.lab.report.plots.lanes import plot_lanes
from verispec.lab.report.plots.prompts import plot_prompts
from verispec.lab.wording import counted

METRICS = {
    "rate_1_100": "tokens/s, rate 1-100",
    "rate_1_100_by_100": "tokens/s, rate by 100 (1% high)",
    "full": "tokens/s, full",
    "wall": "tokens/s, wall",
}
FILTERS = {
    name: getattr(text, name)
    for name in (
        "signed",
        "interval",
        "number",
        "figures",
        "milliseconds",
        "moment",
        "value_text",
        "verbatim",
    )
}


@dataclass(frozen=True)
class ExperimentPage:
    """What the templates ask of an experiment."""

    facts: ExperimentFacts

    @cached_property
    def candidates(self) -> list[CandidateFacts]:
        return [candidate_facts(self.facts, arm) for arm in self.facts.begun["candidates"]]

    @cached_property
    def margin(self) -> float:
        """In percent."""
        return 100 * float(self.facts.begun["plan"]["margin"])

    @property
    def metric(self) -> str:
        return METRICS[self.facts.begun["metric"]]

    def intervals(self) -> Markup | None:
        """None before any candidate has an estimate."""
        found = [
            Estimate(
                name=one.arm,
                measured=one.verdict["effect_percent"],
                shrunken=one.verdict["shrunken_percent"],
                ends=tuple(one.verdict["interval_percent"]),
                described=one.verdict["bootstrap_percent"] and tuple(one.verdict["bootstrap_percent"]),
            )
            for one in self.candidates
            if one.verdict.get("effect_percent") is not None
        ]
        return plot_intervals(found, self.margin, "change in percent") if found else None

    def lanes(self, stage: str) -> Markup | None:
        """The distribution of each lane of a stage; None where no lane has the metric."""
        metric = self.facts.begun["metric"]
        lanes = [lane for lane in self.facts.lanes if lane.record["stage"] == stage]
        arms = [*self.facts.arms, "reference"]
        if not any(lane.numbers(metric) for lane in lanes):
            return None
        return plot_lanes(lanes, arms, metric, f"{stage}: {self.metric}")

    def prompts(self, candidate: CandidateFacts) -> Markup | None:
        """The paired differences; None where no block holds both arms."""
        if not any(one.blocks for one in candidate.prompts):
            return None
        arm = self.facts.arms.index(candidate.arm)
        return plot_prompts(candidate.prompts, arm, self.margin, f"{candidate.arm}: change in percent")

    @cached_property
    def factor_points(self) -> list[FactorPoint]:
        """Of the lanes behind the verdicts: the last stage of each candidate, and the controls beside them."""
        lanes = {lane.digest: lane for one in self.candidates for lane in (*one.control, *one.candidate)}
        return factor_points(list(lanes.values()))

    @property
    def passes_inferred(self) -> str:
        """A sentence where the servers of those lanes did not count passes themselves."""
        lanes = [lane for one in self.candidates for lane in (*one.control, *one.candidate)]
        return INFERRED if any(lane.record["summary"].get("passes_inferred") for lane in lanes) else ""

    def inferred(self, stage: str) -> str:
        """The same of all lanes of a stage."""
        lanes = [lane for lane in self.facts.lanes if lane.record["stage"] == stage]
        return INFERRED if any(lane.record["summary"].get("passes_inferred") for lane in lanes) else ""

    def factors(self) -> Markup:
        return plot_factors(self.factor_points, self.facts.arms)

    def rules(self) -> list[Any]:
        return list(rules_held(self.facts))

    def invalid(self) -> list[Any]:
        return list(invalid_lanes(self.facts))

    @cached_property
    def identities(self) -> list[ArmIdentity]:
        found = [
            arm_identity(arm, [lane for lane in self.facts.lanes if lane.record["arm"] == arm])
            for arm in (*self.facts.arms, "reference")
        ]
        return [one for one in found if one is not None]

    def against_control(self, arm: str) -> Difference | None:
        """How the identity of an arm differs from the control's; None where one of the two is not known."""
        known = [
            next(
                (lane for lane in self.facts.lanes if lane.record["arm"] == one and lane.record["identity"]),
                None,
            )
            for one in (self.facts.arms[0], arm)
        ]
        first, second = known
        return None if first is None or second is None else difference(first, second)


def page_environment(*more: BaseLoader, shown: Callable[[str], str] = text.shown) -> Environment:
    """Templates of the report, behind those of ``more``. Whatever is filled in is escaped unless a plot made it;
    ``shown`` says how a text is written."""

    def finalize(value: Any) -> Any:
        return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=ChoiceLoader([*more, PackageLoader("verispec.lab.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    environment.filters |= FILTERS | {"counted": counted}
    environment.filters["told_apart"] = lambda pair: text.told_apart(pair, shown)
    environment.globals["product_version"] = __version__
    return environment


def style() -> str:
    """The style sheet of all pages."""
    return files("verispec.lab.report").joinpath("style.css").read_text(encoding="utf-8")


def report_page(ledger: Ledger, name: str | None = None) -> str:
    """The page of one experiment, the newest by default: one file that asks nothing of anyone, and names no folder.

    LedgerError when there is no such experiment, or its evidence is missing or altered.
    """
    number = experiment_called(ledger, name)
    facts = read_experiment_facts(ledger, LaneReader(ledger), number)
    values: Mapping[str, Any] = {"page": ExperimentPage(facts), "style": Markup(style()), "linked": False}
    return _environment().get_template("report.html").render(values)


@lru_cache
def _environment() -> Environment:
    return page_environment(shown=_shown_to_others)


def _shown_to_others(value: str) -> str:
    """As on any page, but of files their names alone: a report leaves the machine."""
    return text.shown(value if isinstance(value, text.Verbatim) else without_folders(value))
