"""The server's settings: their names, which are flags and keys of the configuration file, their checks and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from verispec.artifacts.draft_manifest import read_draft_manifest
from verispec.drafting.chained_strategies import JOIN
from verispec.drafting.options import DRAFT_MODEL
from verispec.drafting.strategies import VOCABULARY
from verispec.engine.loading import BACKENDS, DEFAULT_BACKEND, DEFAULT_MODEL
from verispec.engine.options import GenerationLimits, SamplingParameters, check_integer, check_number
from verispec.errors import OptionError

MEGABYTE = 1 << 20
DEFAULT_REPLICAS = 2
LONGEST = 86400.0
"""Seconds of the longest time-out, a day."""

REQUEST_OPTIONS = {"spec_mode", "strict_drafter", "drafter_deadline"}
"""What a request leaves to the server unless it says so itself, beside the ``spec_*`` options."""
OF_REQUESTS = {*SamplingParameters.__slots__, *GenerationLimits.__slots__}
"""What each request decides alone: OpenAI's protocol has its own defaults for them."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything that is decided at start. Sizes in MiB, times in seconds.

    ``requests`` holds the options of requests that do not name them. Raises OptionError for a value out of range.
    """

    model: str = DEFAULT_MODEL
    alias: tuple[str, ...] = ()
    """Further names that requests may use for the model."""
    host: str = "127.0.0.1"
    port: int = 8080
    ctx: int | None = None
    threads: int | None = None
    backend: str = DEFAULT_BACKEND
    parallel: int = 8
    """Answers that are written at the same time."""
    queue: int = 64
    """Answers that may wait for their turn."""
    prefix_cache: float = 256.0
    """MiB of prompt prefixes kept for later requests; 0 keeps none."""
    deadline: float = 600.0
    """Seconds after which a request is given up."""
    drain: float = 30.0
    """Seconds that running answers get at shutdown."""
    api_keys: str | None = None
    """File with one key a line."""
    open_metrics: bool = False
    """Whether ``/metrics`` can be read without a key."""
    allow_origin: tuple[str, ...] = ()
    """Origins of web pages, beside the server's own, that may call it."""
    allow_host: tuple[str, ...] = ()
    """Further names by which clients may address a loopback server that asks for no key."""
    receipts: int = 1000
    """Receipts kept for ``/v1/receipts``."""
    max_body: float = 4.0
    """MiB of one request's body."""
    max_requests: int = 256
    """Requests handled at the same time."""
    max_connections: int = 1024
    """Connections open at the same time."""
    header_timeout: float = 10.0
    """Seconds for a request's head to arrive."""
    body_timeout: float = 30.0
    """Seconds for a request's body to arrive."""
    write_timeout: float = 30.0
    """Seconds a client may leave its answer unread once the buffers are full."""
    keep_alive: float = 75.0
    """Seconds an idle connection stays open after an answer."""
    ray: bool = False
    """Whether replicas on Ray Serve answer, and not an engine of this process."""
    replicas: int | None = None
    """How many."""
    ray_address: str | None = None
    """The Ray cluster to run them on; without it they run on this machine."""
    requests: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, low, high in _INTEGERS:
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value, low, high)
        for name, low_number, high_number in _NUMBERS:
            check_number(name, getattr(self, name), low_number, high_number)
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise OptionError(f"{name}: expected a non-empty string, found {value!r}")
        for name in _LISTS:
            object.__setattr__(self, name, _strings(name, getattr(self, name)))
        if self.backend not in BACKENDS:
            raise OptionError(f"backend: expected one of {', '.join(BACKENDS)}, found {self.backend!r}")
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}: expected true or false, found {getattr(self, name)!r}")
        for name in ("replicas", "ray_address"):
            if getattr(self, name) is not None and not self.ray:
                raise OptionError(f"{name}: only --ray reads it")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ServerSettings:
        """Settings from names and values, such as those of a configuration file under the flags.

        ``draft`` names a strategy or a draft model's file. Raises OptionError for a name that nothing reads.
        """
        values = dict(given)
        if (draft := values.pop("draft", None)) is not None:
            values |= _speculation(draft, values)
        own = {name: values.pop(name) for name in _NAMES & values.keys()}
        for name in values:
            if name in OF_REQUESTS:
                raise OptionError(f"{name}: not an option of the server; each request has its own")
            if name not in REQUEST_OPTIONS and not name.startswith("spec_"):
                close = get_close_matches(name, [*_NAMES, *REQUEST_OPTIONS], 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise OptionError(f"{name}: no such option of the server or of its requests{hint}")
        return cls(**own, requests=values)

    @property
    def replica_count(self) -> int:
        """Replicas that ``ray`` runs."""
        return DEFAULT_REPLICAS if self.replicas is None else self.replicas

    @property
    def body_bytes(self) -> int:
        return int(self.max_body * MEGABYTE)

    @property
    def prefix_cache_bytes(self) -> int:
        return int(self.prefix_cache * MEGABYTE)

    def as_dict(self) -> dict[str, Any]:
        """The settings in effect; of the keys' file only whether there is one."""
        shown = {one.name: getattr(self, one.name) for one in fields(self)}
        shown["api_keys"] = self.api_keys is not None
        return {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}


_INTEGERS = (
    ("port", 0, 65535),
    ("ctx", 1, 2**31 - 1),
    ("threads", 1, 2**31 - 1),
    ("parallel", 1, 1024),
    ("queue", 0, 2**20),
    ("receipts", 0, 2**20),
    ("max_requests", 1, 2**20),
    ("max_connections", 1, 2**20),
    ("replicas", 1, 256),
)
_NUMBERS = (
    ("prefix_cache", 0.0, 2.0**24),
    ("deadline", 0.001, LONGEST),
    ("drain", 0.0, LONGEST),
    ("max_body", 1e-3, 1024.0),
    ("header_timeout", 0.01, LONGEST),
    ("body_timeout", 0.01, LONGEST),
    ("write_timeout", 0.01, LONGEST),
    ("keep_alive", 0.01, LONGEST),
)
_TEXTS = ("model", "host", "api_keys", "ray_address")
_SWITCHES = ("open_metrics", "ray")
_LISTS = ("alias", "allow_origin", "allow_host")
_NAMES = {one.name for one in fields(ServerSettings)} - {"requests"}


def _strings(name: str, given: object) -> tuple[str, ...]:
    """One string or several, as settings hold them."""
    values = (given,) if isinstance(given, str) else given
    if not isinstance(values, (list, tuple)) or not all(isinstance(one, str) and one for one in values):
        raise OptionError(f"{name}: expected non-empty strings, found {given!r}")
    return tuple(values)


def _speculation(draft: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """What ``draft`` stands for: a strategy, or an admitted artifact, whose kind its manifest says."""
    for name in ("spec_mode", DRAFT_MODEL.name):
        if name in given:
            raise OptionError(f"draft: expected it or {name}, found both")
    if not isinstance(draft, str) or not draft:
        raise OptionError(f"draft: expected a strategy or the file of a draft model, found {draft!r}")
    if draft in VOCABULARY or JOIN in draft:
        return {"spec_mode": draft}
    path = Path(draft)
    if not path.exists() and path.suffix != ".gguf":
        raise OptionError(
            f"draft: expected one of {', '.join(VOCABULARY)} or an admitted draft artifact, found {draft!r}"
        )
    kind = read_draft_manifest(path).kind if path.exists() else "draft-model"
    return {"spec_mode": kind, DRAFT_MODEL.name: draft}
