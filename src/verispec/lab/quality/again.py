"""Records of quality, profiles and company against what their rows give today."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from verispec.lab.experiment.measured import MeasuredLane
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.ledger.objects import canonical_json
from verispec.lab.quality.company import derived_widths
from verispec.lab.quality.profile_run import profile_rates
from verispec.lab.quality.scored import derived_quality
from verispec.lab.quality.slow_tail import audit_tail

Record = Mapping[str, Any]


def wrong_derivations(ledger: Ledger, record: Record) -> Iterator[str]:
    """One line for every part of the record that its evidence does not give."""
    for name, value in DERIVATIONS[record["kind"]](ledger, record).items():
        if _plain(value) != _plain(record[name]):
            yield f"{name} is not what the raw rows give"


def _profile(ledger: Ledger, record: Record) -> dict[str, Any]:
    lanes = [ledger.get(digest) for digest in record["lanes"]]
    measured = [MeasuredLane("", lane, ledger.rows(lane)) for lane in lanes if lane["valid"]]
    return {
        "valid_lanes": len(measured),
        "rates": [rate.record() for rate in profile_rates(record["profile"], measured)],
        "tail": [one.as_dict() for one in audit_tail([lane.rows for lane in measured])],
    }


def _company(ledger: Ledger, record: Record) -> dict[str, Any]:
    return {"widths": derived_widths(ledger, record["widths"])}


DERIVATIONS: Mapping[str, Callable[[Ledger, Record], dict[str, Any]]] = {
    "quality": derived_quality,
    "profile": _profile,
    "company": _company,
}


def _plain(value: Any) -> bytes:
    return canonical_json(json.loads(json.dumps(value)))
