"""What runs in one arm of an experiment: a profile, a model, arguments, environment, and what is expected of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from verispec.errors import OptionError
from verispec.lab.secrets import content_shown, secret_values
from verispec.lab.targets.profile import ActivationProbe, Profile


@dataclass(frozen=True, slots=True)
class Declared:
    """What must be observed, beyond what the command line and the environment say themselves.

    ``binary`` is the program that the process must turn out to be, when the command is a wrapper around it.
    ``options`` are values by their path in what the server reports.
    """

    binary: str | None = None
    binary_sha256: str | None = None
    version: str | None = None
    weights_sha256: str | None = None
    commit: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that was set on purpose: a flag with its values, or an environment variable (``place``)."""

    name: str
    value: str
    place: str


@dataclass(frozen=True, slots=True)
class Target:
    """See ``lab.md``."""

    name: str
    profile: Profile
    model: str
    binary: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[int, ...] = ()
    draft: str | None = None
    source: str | None = None
    template: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    declared: Declared = Declared()
    served_name: str | None = None
    silence_seconds: float = 120.0
    answer_seconds: float = 1800.0
    notes: str = ""

    def __post_init__(self) -> None:
        for name in ("silence_seconds", "answer_seconds"):
            if getattr(self, name) <= 0:
                raise OptionError(
                    f"target {self.name}: {name}: expected seconds, found {getattr(self, name)}"
                )
        if min(self.affinity, default=0) < 0:
            raise OptionError(
                f"target {self.name}: affinity: expected processors, found {list(self.affinity)}"
            )

    def command(self, host: str, port: int) -> list[str]:
        """The whole command line for a server at ``host`` and ``port``."""
        known = {"binary": self.binary, "model": self.model, "host": host, "port": str(port)}
        return [part.format_map(known) for part in self.profile.command] + list(self.arguments)

    def variables(self, host: str, port: int, device: str) -> dict[str, str]:
        """The environment variables that are set for a server on ``device``; ``cpu`` and ``cpu:0,1`` need none."""
        known = {"model": self.model, "host": host, "port": str(port)}
        variables = {name: value.format_map(known) for name, value in self.profile.environment.items()}
        if self.profile.device_variable and not device.startswith("cpu"):
            variables[self.profile.device_variable] = device
        return variables | dict(self.environment)

    def cores(self, device: str) -> tuple[int, ...]:
        """The processors that the server is kept on; none means all."""
        _, _, listed = device.partition("cpu:")
        return tuple(int(core) for core in listed.split(",")) if listed else self.affinity

    def knobs(self) -> Iterator[Knob]:
        """Everything that was set on purpose, in order."""
        yield from _flags(self.arguments)
        for name, value in sorted(self.environment.items()):
            yield Knob(name, value, "environment")

    def probe(self, knob: Knob) -> ActivationProbe | None:
        """How ``knob`` proves that something reads it: the target's own probes come before the profile's."""
        return next((one for one in self.profile.activation if one.is_for(knob.name, knob.value)), None)

    def secrets(self) -> list[str]:
        """What must not be written down, also where a server prints it."""
        return secret_values(self.arguments, self.environment)

    def record(self) -> dict[str, Any]:
        """All of it as JSON, for the ledger; of secrets a digest."""
        content = asdict(self)
        profile = json.dumps(content["profile"], sort_keys=True, default=str)
        content["profile"] = self.profile.engine
        content["profile_sha256"] = hashlib.sha256(profile.encode()).hexdigest()
        content["command"] = self.command("HOST", 0)
        told: dict[str, Any] = content_shown(content)
        return told


def _flags(arguments: Sequence[str]) -> Iterator[Knob]:
    """A flag ends where the next one begins; a negative number is a value."""
    name: str | None = None
    values: list[str] = []
    for part in [*arguments, "--"]:
        if not (part.startswith("-") and not part[1:2].isdigit()):
            values.append(part)
            continue
        if name is not None:
            yield Knob(name, " ".join(values), "argument")
        name, equals, value = part.partition("=")
        values = [value] if equals else []
