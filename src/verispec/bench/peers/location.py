"""Where the peers are: given by options, or found in this environment; what is missing is said, not dropped."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from verispec.bench.peers.catalog import PEERS, PeerKind
from verispec.errors import OptionError


@dataclass(frozen=True, slots=True)
class PeerLocation:
    """A peer and the program that runs it. ``label`` tells two builds of one peer apart."""

    kind: PeerKind
    program: str
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind.name} {self.label}".strip()


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A peer that was left out, why, and what to do about it."""

    peer: str
    reason: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        return {"peer": self.peer, "reason": self.reason, "remedy": self.remedy}


def locate_peers(
    pythons: Sequence[str], binaries: Sequence[str]
) -> tuple[list[PeerLocation], list[NotMeasured]]:
    """Every peer of the catalogue, given (``NAME[@LABEL]=PROGRAM``) or found here; and those that are missing."""
    given = [_parse(word, True) for word in pythons] + [_parse(word, False) for word in binaries]
    located, missing = list(given), []
    for kind in PEERS.values():
        if any(location.kind is kind for location in given):
            continue
        program = _find(kind)
        if program is None:
            option = f"--peer-{'python' if kind.module else 'binary'} {kind.name}=PATH"
            reason = "not installed in this environment" if kind.module else "not on the PATH"
            missing.append(NotMeasured(kind.name, reason, f"{kind.install}, or name one: {option}"))
        else:
            located.append(PeerLocation(kind, program))
    return located, missing


def _find(kind: PeerKind) -> str | None:
    if kind.module:
        return sys.executable if importlib.util.find_spec(kind.module) else None
    return shutil.which(kind.name)


def _parse(word: str, python: bool) -> PeerLocation:
    option = "--peer-python" if python else "--peer-binary"
    left, equals, program = word.partition("=")
    name, _, label = left.partition("@")
    known = [kind.name for kind in PEERS.values() if bool(kind.module) == python]
    if not equals or name not in known:
        raise OptionError(
            f"{option}: expected NAME[@LABEL]=PATH with a name of {', '.join(known)}, found {word!r}"
        )
    found = shutil.which(program)
    if found is None:
        raise OptionError(f"{option}: {name}: expected a program, found {program!r}")
    return PeerLocation(PEERS[name], found, label)
