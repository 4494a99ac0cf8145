"""The lanes of a stage, by arm: which count, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from verispec.lab.evidence_rows import LaneValues
from verispec.lab.gate.rules import failures
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.lane_values import lane_values
from verispec.lab.metrics.outputs import OutputComparison, compare_lanes, exactness

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MeasuredLane:
    """A lane record with its raw rows. ``digest`` names the record in the ledger."""

    digest: str
    record: Record
    rows: Sequence[Record]

    @property
    def valid(self) -> bool:
        return bool(self.record["valid"])

    @property
    def reasons(self) -> list[str]:
        """What the gate objects to."""
        return failures(self.record["gate"])


@dataclass(slots=True)
class StageLanes:
    """All lanes that one stage has run, in order."""

    lanes: list[MeasuredLane] = field(default_factory=list)

    def of(self, arm: str) -> list[MeasuredLane]:
        return [lane for lane in self.lanes if lane.record["arm"] == arm]

    def valid(self, arm: str) -> list[MeasuredLane]:
        return [lane for lane in self.of(arm) if lane.valid]

    def values(self, arm: str, metric: str) -> list[LaneValues]:
        """The valid lanes of an arm that have the metric."""
        found = [lane_values(lane.record, lane.rows, metric) for lane in self.valid(arm)]
        return [one for one in found if one is not None]

    def complaints(self, arm: str) -> list[str]:
        """Why lanes of an arm do not count."""
        return [
            f"lane {lane.record['lane']}: {reason}"
            for lane in self.of(arm)
            if not lane.valid
            for reason in lane.reasons
        ]


def compare_arms(first: Iterable[MeasuredLane], second: Iterable[MeasuredLane]) -> list[OutputComparison]:
    """Every prompt of every lane of one arm against every lane of the other."""
    others = list(second)
    return [
        comparison
        for lane in first
        for other in others
        if lane.digest != other.digest
        for comparison in compare_lanes(lane.rows, other.rows)
    ]


def lane_called(ledger: Ledger, digest: str) -> MeasuredLane:
    """The lane of the ledger whose record has this digest."""
    record = ledger.get(digest)
    return MeasuredLane(digest, record, ledger.rows(record))


def drafts(lanes: Iterable[MeasuredLane]) -> bool | None:
    """Whether the lanes' server drafted tokens for any answer; None where it did not count them for every one."""
    counts = [(row.get("counts") or {}).get("drafted") for lane in lanes for row in lane.rows]
    if any(counts):
        return True
    return False if counts and None not in counts else None


def identical_servers(lanes: Sequence[MeasuredLane]) -> int:
    """How many fresh servers at most wrote the same for the whole suite."""
    digests = [lane.record["output_sha256"] for lane in lanes if lane.valid]
    return max((digests.count(digest) for digest in digests), default=0)


def output_summary(comparisons: Sequence[OutputComparison]) -> dict[str, Any]:
    """The outcome in short: the weakest, how many of each, and where outputs first differ (each place once)."""
    outcomes = [one.outcome for one in comparisons]
    places = dict.fromkeys(one for one in comparisons if one.position is not None)
    return {
        "exactness": exactness(comparisons),
        "compared": len(comparisons),
        "counts": {name: outcomes.count(name) for name in sorted(set(outcomes))},
        "differences": [one.record() for one in places][:24],
    }
