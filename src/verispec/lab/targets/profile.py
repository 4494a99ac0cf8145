"""What the lab knows about an engine: how to start it, when it is ready, and where it says what it does."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verispec.lab.targets.source import Source

PASS_COUNTS = ("passes", "drafted", "accepted", "pass_seconds")
"""What a profile can say about the rounds of one answer."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """``wake``: the engine loads its model with the first request, so that one is sent before anything is read."""

    path: str = "/health"
    seconds: float = 300.0
    wake: bool = False


@dataclass(frozen=True, slots=True)
class ActivationProbe:
    """How one knob proves that something reads it.

    ``knob`` is a flag or the name of an environment variable, with wildcards. ``source`` is where its value must come
    back; in its path ``{name}`` stands for the flag without leading dashes and with underscores, ``{value}`` for what
    was given. ``equals`` is what must come back when that is not the value itself. ``counters`` are names of
    ``PASS_COUNTS`` or of metrics that must move during the lane. ``differs``: the counts of its rows must not be those
    of a control without it, which the smoke stage of an experiment compares. ``when`` restricts the probe to one value.
    ``waived`` says why there is no proof; it is recorded, and a candidate with it cannot be promoted.
    """

    knob: str
    source: Source | None = None
    equals: Any = None
    counters: tuple[str, ...] = ()
    differs: bool = False
    when: str | None = None
    waived: str = ""

    def is_for(self, knob: str, value: str) -> bool:
        return fnmatch.fnmatchcase(knob, self.knob) and self.when in (None, value)


@dataclass(frozen=True, slots=True)
class Profile:
    """An engine.

    ``command`` is run with ``{binary}``, ``{model}``, ``{host}``, ``{port}`` filled in; the target's arguments follow
    it. ``request`` are fields of every request, such as those that forbid prompt caches and ask for counts.
    ``options`` are paths of JSON that the server tells about itself, by name. ``counts`` are sources of ``PASS_COUNTS``
    for one answer; ``fresh`` are metrics that are zero on a server that has answered nothing. ``packages`` are Python
    packages that make up the engine. ``environment`` is what the command needs, filled in as it is; ``device_variable``
    names the variable that chooses a device. ``reuse`` are flags, with or without a
    value, that let requests profit from earlier ones. ``phases`` are sources of the seconds that one answer spent in
    each phase, such as ``draft``; a path that ends in ``_ms`` gives milliseconds. ``accepted_by_position`` is the
    source of a list: in how many passes of one answer the first, second, ... token of a proposal was accepted.
    """

    engine: str
    command: tuple[str, ...]
    binary: str
    endpoint: str = "/v1/chat/completions"
    request: Mapping[str, Any] = field(default_factory=dict)
    ready: Readiness = Readiness()
    options: Mapping[str, str] = field(default_factory=dict)
    metrics: str | None = None
    fresh: tuple[str, ...] = ()
    version: Source | None = None
    weights: Source | None = None
    template: Source | None = None
    model: Source | None = None
    counts: Mapping[str, Source] = field(default_factory=dict)
    phases: Mapping[str, Source] = field(default_factory=dict)
    accepted_by_position: Source | None = None
    packages: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    device_variable: str | None = None
    reuse: tuple[tuple[str, ...], ...] = ()
    activation: tuple[ActivationProbe, ...] = ()
