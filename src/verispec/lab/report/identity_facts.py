"""What ran in each arm, whether its lanes agree about it, and how a candidate's differs from the control's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from verispec.lab.identity.compare import identity_difference
from verispec.lab.report.lane_facts import LaneFacts
from verispec.lab.report.text import value_text

Difference = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class ArmIdentity:
    """``facts`` are of the arm's first lane that has them; ``varies`` is where its other lanes differ from it."""

    arm: str
    lane: str
    facts: tuple[tuple[str, str], ...]
    varies: Difference


def arm_identity(arm: str, lanes: Sequence[LaneFacts]) -> ArmIdentity | None:
    """None for an arm of whose lanes nothing is known."""
    known = [lane for lane in lanes if lane.record["identity"]]
    if not known:
        return None
    varies: dict[str, tuple[Any, Any]] = {}
    for other in known[1:]:
        varies |= {path: pair for path, pair in difference(known[0], other).items() if path not in varies}
    return ArmIdentity(arm, known[0].name, tuple(_facts(known[0])), varies)


def difference(first: LaneFacts, second: LaneFacts) -> Difference:
    """By path, but for what differs between any two lanes. The command line is compared as it was declared, since the
    observed one holds the lane's own port; the gate has compared the two. A library is known by its name, so that two
    builds of one are a difference and not two files that only one side has."""
    sides = [
        {**_named_libraries(lane.record["identity"] or {}), "arguments": lane.record["target"]["command"]}
        for lane in (first, second)
    ]
    return identity_difference(*sides)


def _named_libraries(identity: Mapping[str, Any]) -> Mapping[str, Any]:
    binary = identity.get("binary")
    if not binary:
        return identity
    named: dict[str, str] = {}
    for path, digest in (binary.get("libraries") or {}).items():
        name = PurePosixPath(path).name
        named[name] = f"{named[name]} {digest}" if name in named else digest
    return {**identity, "binary": {**binary, "libraries": named}}


def _facts(lane: LaneFacts) -> Iterator[tuple[str, str]]:
    identity, target = lane.record["identity"], lane.record["target"]
    binary, host = identity.get("binary") or {}, identity.get("host") or {}
    yield "engine", value_text(target["profile"])
    yield "version", value_text(identity.get("version"))
    yield "command", " ".join(target["command"])
    yield "environment", value_text(identity.get("environment"))
    yield "binary", f"{value_text(binary.get('path'))}, SHA-256 {value_text(binary.get('sha256'))}"
    yield "libraries, SHA-256", value_text(identity.get("libraries_sha256"))
    for name in ("weights", "draft", "template", "model", "source", "options", "affinity"):
        if identity.get(name) not in (None, "", {}, []):
            yield name, value_text(identity[name])
    for name, value in host.items():
        yield f"host {name.replace('_', ' ')}", value_text(value)
    yield "load at start", value_text(identity.get("load_at_start"))
