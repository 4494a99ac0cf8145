"""One lane as pages show it: its record, and the metrics of each prompt; the raw rows are read once and let go."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verispec.errors import OptionError
from verispec.lab.evidence_rows import LaneValues, PromptValue
from verispec.lab.gate.rules import failures
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.rates import RowMetrics, row_metrics

Record = Mapping[str, Any]
KEPT = 256


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """One prompt in one lane. ``metrics`` is None after a fault, whose name is ``fault``."""

    prompt: str
    kind: str
    metrics: RowMetrics | None
    finish: str | None
    fault: str | None

    def value(self, metric: str) -> float | None:
        """One metric, by its name in ``RowMetrics``."""
        found: float | None = None if self.metrics is None else getattr(self.metrics, metric)
        return found


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """``digest`` names the record in the ledger."""

    digest: str
    record: Record
    prompts: tuple[PromptFacts, ...]

    @property
    def name(self) -> str:
        return str(self.record["lane"])

    @property
    def valid(self) -> bool:
        return bool(self.record["valid"])

    @property
    def reasons(self) -> list[str]:
        """What the gate objects to."""
        return failures(self.record["gate"])

    def numbers(self, metric: str) -> list[float]:
        """One metric of the prompts that have it."""
        return [one for prompt in self.prompts if (one := prompt.value(metric)) is not None]

    def statistic(self, metric: str, name: str) -> float | None:
        """What the lane's summary says, such as the median of a rate; None where a prompt lacks the metric."""
        found = self.record["summary"].get(metric)
        return None if found is None else found[name]

    def values(self, metric: str) -> LaneValues | None:
        """The lane as decisions take it; None where a prompt lacks the metric."""
        found = self.numbers(metric)
        if not found or len(found) < len(self.prompts):
            return None
        lane = self.record
        values = [
            PromptValue(one.prompt, one.kind, value) for one, value in zip(self.prompts, found, strict=True)
        ]
        return LaneValues(self.name, lane["arm"], lane["block"], lane["device"], lane["order"], tuple(values))


class LaneReader:
    """Lanes of one ledger. What was read stays for a while: evidence is named by its content and never changes."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, LaneFacts] = OrderedDict()

    def read(self, digest: str) -> LaneFacts:
        """The lane whose record has this digest. LedgerError when evidence is missing or altered."""
        with self._lock:
            known = self._kept.get(digest)
            if known is not None:
                self._kept.move_to_end(digest)
                return known
        record = self._ledger.get(digest)
        lane = LaneFacts(digest, record, tuple(_prompt(row) for row in self._ledger.rows(record)))
        with self._lock:
            self._kept[digest] = lane
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return lane


def _prompt(row: Record) -> PromptFacts:
    fault = row["fault"]
    metrics = None
    if fault is None:
        try:
            metrics = row_metrics(row)
        except OptionError:  # tokens without times: the gate names it
            metrics = None
    return PromptFacts(
        row["prompt"], row["class"], metrics, row["finish_reason"], None if fault is None else fault["name"]
    )
