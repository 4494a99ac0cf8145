"""What each page of the dashboard shows, as HTML."""

from __future__ import annotations

from typing import Any

from jinja2 import PackageLoader

from verispec.errors import VerispecError
from verispec.lab.comparison import compare, lanes_called
from verispec.lab.dashboard.catalogue import listed_experiments, negatives
from verispec.lab.dashboard.fresh_index import FreshIndex
from verispec.lab.dashboard.history import record_history
from verispec.lab.dashboard.history_plot import plot_history
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import LedgerError
from verispec.lab.metrics.summary import INFERRED
from verispec.lab.questions import ask
from verispec.lab.report.experiment_facts import read_experiment_facts
from verispec.lab.report.identity_facts import arm_identity, difference
from verispec.lab.report.lane_facts import LaneReader
from verispec.lab.report.page import METRICS, ExperimentPage, page_environment

PAGE = 50
MOST_TRIED = 200
MOST_POINTS = 200


class Pages:
    """Of one ledger. Methods are called from several threads and raise LedgerError for what is not there."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._reader = LaneReader(ledger)
        self.index = FreshIndex(ledger)
        self._templates = page_environment(PackageLoader("verispec.lab.dashboard"))

    def experiments(self, page: int) -> str:
        """The list, ``page`` counted from 1."""
        self.index.refresh()
        total = self._ledger.index.count("experiment-begun")
        found = listed_experiments(self._ledger.index, PAGE, PAGE * (page - 1))
        return self._fill(
            "experiments.html", experiments=found, number=page, pages=max(1, -(-total // PAGE)), total=total
        )

    def experiment(self, number: str) -> str:
        """Everything the report has."""
        self.index.refresh()
        facts = read_experiment_facts(self._ledger, self._reader, number)
        return self._fill("experiment_page.html", page=ExperimentPage(facts))

    def lane(self, name: str) -> str:
        """One lane: whether it counts, what ran, each prompt. A lane that was cut off has only its beginning."""
        self.index.refresh()
        ended = self._ledger.index.matching(name, "lane")
        if len(ended) == 1:
            lane = self._reader.read(ended[0])
            return self._fill(
                "lane.html",
                lane=lane,
                identity=arm_identity(lane.record["arm"], [lane]),
                metrics=METRICS,
                inferred=INFERRED,
            )
        begun = self._ledger.index.matching(name, "lane-begun")
        if len(begun) != 1:
            raise LedgerError(f"ledger: expected a lane {name!r}, found none")
        return self._fill("lane_begun.html", begun=self._ledger.get(begun[0]))

    def records(self) -> str:
        """Rates over time, series by series."""
        self.index.refresh()
        series = record_history(self._ledger.index)
        plots = [plot_history(one.measurements[-MOST_POINTS:]) for one in series]
        return self._fill("records.html", series=list(zip(series, plots, strict=True)))

    def comparison(self, first: str, second: str) -> str:
        """Two lanes, or arms of experiments, beside each other; a form before both are named."""
        self.index.refresh()
        values: dict[str, Any] = {"first": first, "second": second, "result": None, "found": {}, "wrong": ""}
        if first and second:
            try:
                sides = [lanes_called(self._ledger, name) for name in (first, second)]
                values["result"] = compare(*sides)
                values["found"] = difference(*(self._reader.read(side[0].digest) for side in sides))
            except VerispecError as error:
                values["wrong"] = str(error)
        return self._fill("comparison.html", **values)

    def tried(self, question: str) -> str:
        """What ``lab ask`` finds; without a question what was tried and not shown to help."""
        self.index.refresh()
        found = (
            list(reversed(ask(self._ledger, question)))
            if question.strip()
            else negatives(self._ledger.index, MOST_TRIED)
        )
        return self._fill("tried.html", question=question, tried=found[:MOST_TRIED], total=len(found))

    def failure(self, status: int, message: str) -> str:
        """Why there is no such page."""
        return self._fill("failure.html", status=status, message=message)

    def _fill(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(linked=True, **values)
