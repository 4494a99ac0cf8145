"""Lists of experiments and of what was tried, from the index alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verispec.lab.decision import Verdict
from verispec.lab.ledger.index import Index
from verispec.lab.questions import Tried

Brief = Mapping[str, Any]
HELPED = (str(Verdict.IMPROVEMENT), str(Verdict.PROMOTED))


@dataclass(frozen=True, slots=True)
class ListedExperiment:
    """``verdicts`` by candidate, empty while there is no end; ``invalid`` of the ``lanes`` do not count."""

    begun: Brief
    verdicts: Mapping[str, Brief]
    finished: bool
    lanes: int
    invalid: int


def listed_experiments(index: Index, newest: int, skipped: int) -> list[ListedExperiment]:
    """The newest first."""
    found = []
    for begun in index.briefs("experiment-begun", newest=newest, skipped=skipped):
        number = begun["experiment"]
        ended = index.briefs("experiment", number, newest=1)
        lanes = index.briefs("lane", number)
        found.append(
            ListedExperiment(
                begun=begun,
                verdicts=ended[0]["verdicts"] if ended else {},
                finished=bool(ended),
                lanes=len(lanes),
                invalid=sum(not lane["valid"] for lane in lanes),
            )
        )
    return found


def negatives(index: Index, newest: int) -> list[Tried]:
    """Candidates that were decided and are no gain, the newest first, out of the ``newest`` finished experiments."""
    return [
        _tried(brief, arm, verdict)
        for brief in index.briefs("experiment", newest=newest)
        for arm, verdict in brief["verdicts"].items()
        if verdict["verdict"] not in HELPED
    ]


def _tried(brief: Brief, arm: str, verdict: Brief) -> Tried:
    """Reason and arguments are in indexes since lists show them; an older one is made again when it is deleted."""
    reason = verdict.get("reason")
    ends: Sequence[float | None] | None = verdict["interval_percent"]
    return Tried(
        experiment=brief["experiment"],
        name=brief["name"],
        arm=arm,
        began=brief["began"],
        intent=brief["intent"] or "",
        arguments=brief.get("arguments", {}).get(arm, ""),
        verdict=verdict["text"],
        effect_percent=verdict["effect_percent"],
        interval_percent=ends,
        control_lanes=verdict["control_lanes"] or 0,
        candidate_lanes=verdict["candidate_lanes"] or 0,
        reasons=(reason,) if reason else (),
    )
