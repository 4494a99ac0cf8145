"""Everything derived is derived again from the raw rows, and compared with what the ledger says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from verispec.errors import OptionError
from verispec.lab.experiment.decisions import decide_again
from verispec.lab.lane.derived import DERIVED, derived
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import LedgerError, canonical_json
from verispec.lab.quality.again import DERIVATIONS, wrong_derivations

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold: ``where`` is a record's digest, or the journal."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """``records`` counts what was looked at, by kind. ``head`` is the journal's last hash: whoever has noted it down
    will see it if the newest entries are ever cut off."""

    head: str
    records: dict[str, int]
    findings: tuple[Finding, ...]
    interrupted: tuple[str, ...]
    unnamed: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.findings


def verify(ledger: Ledger, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Checks the journal's chain, every object's digest, and every record that says something derived.

    ``interrupted`` are lanes that were begun and have no end; ``unnamed`` objects that a kill left out of the journal.
    Neither is a fault.
    """
    counts: dict[str, int] = {}
    findings: list[Finding] = []
    begun: dict[str, None] = {}
    named = set()
    entries = []
    try:
        for entry in ledger.entries():
            entries.append(entry)
    except LedgerError as error:
        findings.append(Finding("journal", str(error)))
    for place, entry in enumerate(entries):
        named.add(entry.digest)
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
        try:
            record = ledger.get(entry.digest)
            findings += [Finding(entry.digest, what) for what in _wrong(ledger, record)]
        except (LedgerError, OptionError, KeyError, TypeError, ValueError) as error:
            findings.append(Finding(entry.digest, f"{type(error).__name__}: {error}"))
            continue
        if entry.kind == "lane-begun":
            begun[record["lane"]] = None
        elif entry.kind == "lane":
            begun.pop(record["lane"], None)
        if progress is not None:
            progress(place + 1, len(entries))
    unnamed = tuple(digest for digest in ledger.objects.digests() if digest not in named)
    head = entries[-1].chain if entries else ""
    return Verification(head, counts, tuple(findings), tuple(begun), unnamed)


def _wrong(ledger: Ledger, record: Record) -> Iterator[str]:
    if record["kind"] == "lane":
        again = derived(record, ledger.rows(dict(record)))
        yield from (
            f"{name} is not what the raw rows give"
            for name in DERIVED
            if not _same(record[name], again[name])
        )
        if record["log"] is not None:
            ledger.logs.get_bytes(record["log"], ".log")
    elif record["kind"] == "decision" and (record["from_lanes"] or record["promotion"] is not None):
        decided = decide_again(ledger, record)
        if not _same(_numbers(record["decision"]), _numbers(decided.decision.as_dict())):
            yield "the decision is not what its lanes give"
        yield from (
            f"the promotion's {name} is not what its lanes give"
            for name, value in (decided.evidence or {}).items()
            if not _same(record["promotion"][name], value)
        )
    elif record["kind"] == "experiment":
        last = {}
        for digest in record["decisions"]:
            decision = ledger.get(digest)
            if decision["stage"] != "repeat":
                last[decision["arm"]] = decision["decision"]
        if not _same(record["verdicts"], last):
            yield "the verdicts are not those of its last decisions"
    elif record["kind"] in DERIVATIONS:
        yield from wrong_derivations(ledger, record)


def _numbers(decision: Record) -> dict[str, Any]:
    """A decision without its wording, which may change from version to version."""
    kept = {
        name: value for name, value in decision.items() if name not in ("reasons", "text", "requirements")
    }
    return {**kept, "requirements": [[one["name"], one["status"]] for one in decision["requirements"]]}


def _same(first: Any, second: Any) -> bool:
    return canonical_json(json.loads(json.dumps(first))) == canonical_json(json.loads(json.dumps(second)))
