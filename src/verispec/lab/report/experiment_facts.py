"""Everything the ledger holds of one experiment, whether or not it came to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verispec.lab.experiment.spec import CONTROL
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import LedgerError
from verispec.lab.report.lane_facts import LaneFacts, LaneReader

Record = Mapping[str, Any]
UNFINISHED: Record = {
    "verdict": "unfinished",
    "text": "unfinished",
    "reasons": ["it has not come to its end"],
}


@dataclass(frozen=True, slots=True)
class ExperimentFacts:
    """``begun`` is what was meant, ``ended`` the record of the end or None. ``interrupted`` are beginnings of lanes
    that have no end, ``notes`` what was written down about candidates that were built for it."""

    begun: Record
    ended: Record | None
    decisions: tuple[Record, ...]
    lanes: tuple[LaneFacts, ...]
    interrupted: tuple[Record, ...]
    notes: tuple[Record, ...]

    @property
    def number(self) -> str:
        return str(self.begun["experiment"])

    @property
    def arms(self) -> list[str]:
        """The control, then the candidates as they were declared."""
        return [CONTROL, *self.begun["candidates"]]

    @property
    def stages(self) -> list[str]:
        """Those that have lanes, in the order in which they ran."""
        return list(dict.fromkeys(str(lane.record["stage"]) for lane in self.lanes))

    def deciding(self, arm: str) -> Record | None:
        """The decision that an arm's verdict comes from: its last one; a repeat alone decides nothing."""
        found = [one for one in self.decisions if one["arm"] == arm and one["stage"] != "repeat"]
        return found[-1] if found else None

    def verdict(self, arm: str) -> Record:
        """What the experiment says of a candidate, or so far."""
        if self.ended is not None and arm in self.ended["verdicts"]:
            final: Record = self.ended["verdicts"][arm]
            return final
        last = self.deciding(arm)
        return UNFINISHED if last is None or self.ended is None else last["decision"]

    def is_second_control(self, arm: str) -> bool:
        """Whether nothing that was observed of an arm differs from the control, whatever was meant."""
        return self.ended is not None and arm in self.ended.get("second_controls", ())

    def lanes_of(self, arm: str, stage: str) -> list[LaneFacts]:
        return [lane for lane in self.lanes if lane.record["arm"] == arm and lane.record["stage"] == stage]

    def invalid_lanes(self) -> list[LaneFacts]:
        return [lane for lane in self.lanes if not lane.valid]


def read_experiment_facts(ledger: Ledger, reader: LaneReader, number: str) -> ExperimentFacts:
    """Of the experiment with this id. The index must be up to date. LedgerError when there is none."""
    begun = ledger.index.of_experiment(number, "experiment-begun")
    if not begun:
        raise LedgerError(f"ledger: expected an experiment {number!r}, found none")
    ended = ledger.index.of_experiment(number, "experiment")
    lanes = [reader.read(digest) for digest in ledger.index.of_experiment(number, "lane")]
    over = {lane.name for lane in lanes}
    started = [ledger.get(digest) for digest in ledger.index.of_experiment(number, "lane-begun")]
    return ExperimentFacts(
        begun=ledger.get(begun[0]),
        ended=ledger.get(ended[-1]) if ended else None,
        decisions=tuple(ledger.get(digest) for digest in ledger.index.of_experiment(number, "decision")),
        lanes=tuple(lanes),
        interrupted=tuple(record for record in started if record["lane"] not in over),
        notes=tuple(ledger.get(digest) for digest in ledger.index.of_experiment(number, "candidate")),
    )


def experiment_called(ledger: Ledger, name: str | None) -> str:
    """The id of the experiment that ``name`` is, or that begins so, or that is called so; the newest without one.

    Brings the index up to date. LedgerError when there is none, or more than one.
    """
    ledger.refresh_index()
    known = [(one["experiment"], one["name"]) for one in ledger.index.briefs("experiment-begun")]
    if name is None:
        found = [number for number, _ in known[:1]]
    else:
        found = (
            [number for number, _ in known if number == name]
            or [number for number, _ in known if number.startswith(name)]
            or [number for number, called in known if called == name]
        )
    if len(found) != 1:
        told = ", ".join(found[:5]) or "none"
        raise LedgerError(f"ledger: expected one experiment called {name or 'anything'}, found {told}")
    return str(found[0])
