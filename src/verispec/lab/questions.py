"""Has this been tried? Finds past experiments by what was set in them, and says what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verispec.lab.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate of a past experiment. ``verdict`` is what is known of it; "unfinished" when it has no end."""

    experiment: str
    name: str
    arm: str
    began: float
    intent: str
    arguments: str
    verdict: str
    effect_percent: float | None
    interval_percent: Sequence[float | None] | None
    control_lanes: int
    candidate_lanes: int
    reasons: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ask(ledger: Ledger, question: str) -> list[Tried]:
    """Every candidate in whose settings, name or intent all words of ``question`` stand, the newest last.

    A word is found as a whole: 6 is not found in 16. Dashes in front of a flag do not matter.
    """
    words = [word.lower().strip("-") for word in question.replace("=", " ").split()]
    ledger.refresh_index()
    finished = {}
    for digest in ledger.index.with_words(words, "experiment"):
        record = ledger.get(digest)
        finished[record["experiment"]] = record
    begun = [ledger.get(digest) for digest in ledger.index.with_words(words, "experiment-begun")]
    found = []
    for record in begun:
        end = finished.get(record["experiment"])
        found += [_tried(record, end, arm) for arm in _arms(record, words)]
    return found


def _arms(record: Mapping[str, Any], words: Sequence[str]) -> Iterator[str]:
    """The candidates that all words speak of."""
    about = f"{record['name']} {record['intent']} {record['notes']}"
    for arm in record["candidates"]:
        target = record["targets"][arm]
        settings = [arm, target["name"], target["notes"], " ".join(target["arguments"])]
        settings += [json.dumps(target["environment"]), json.dumps(target["request"])]
        settings += [str(target.get(name)) for name in ("model", "binary", "draft", "template")]
        if all(_stands(word, " ".join([about, *settings]).lower()) for word in words):
            yield arm


def _stands(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", text) is not None


def _tried(record: Mapping[str, Any], end: Mapping[str, Any] | None, arm: str) -> Tried:
    decision = {} if end is None else end["verdicts"].get(arm, {})
    return Tried(
        experiment=record["experiment"],
        name=record["name"],
        arm=arm,
        began=record["began"],
        intent=record["intent"],
        arguments=" ".join(record["targets"][arm]["arguments"]),
        verdict=decision.get("text", "unfinished"),
        effect_percent=decision.get("effect_percent"),
        interval_percent=decision.get("interval_percent"),
        control_lanes=decision.get("control_lanes", 0),
        candidate_lanes=decision.get("candidate_lanes", 0),
        reasons=decision.get("reasons", ()),
    )
