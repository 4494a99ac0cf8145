"""What a server says when it is ready: one block for people, or one line of JSON for launchers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from verispec import __version__
from verispec.backends.native import NativeBackend
from verispec.engine.model import Model
from verispec.engine.request_options import RequestOptions
from verispec.serving.keys import ENVIRONMENT, KeyRing
from verispec.serving.origins import is_loopback
from verispec.serving.settings import MEGABYTE, ServerSettings


@dataclass(frozen=True, slots=True)
class Announcement:
    """``model`` are lines about the model; ``address`` is where the server listens, host and port."""

    settings: ServerSettings
    model: Sequence[str]
    keys: KeyRing
    as_json: bool
    address: tuple[str, int]

    @property
    def url(self) -> str:
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def show(self) -> None:
        """Prints it on standard output; a warning for a server that is open to others goes to standard error."""
        if self.as_json:
            ready = {"url": self.url, "pid": os.getpid(), "model": self.settings.model}
            print(json.dumps(ready), flush=True)
        else:
            print("\n".join(self.lines()), flush=True)
        if not is_loopback(self.address[0]) and not self.keys.required:
            print(
                f"warning: anyone who can reach {self.address[0]} port {self.address[1]} can use this server; "
                f"--api-keys FILE or {ENVIRONMENT} makes it ask for a key",
                file=sys.stderr,
                flush=True,
            )

    def lines(self) -> list[str]:
        """The block: where, what, how it drafts, what it takes, how much it bears."""
        settings = self.settings
        return [
            f"verispec {__version__} at {self.url}",
            *self.model,
            f"  at once   {settings.parallel} answers, {settings.queue} waiting, {settings.deadline:g} s each at most",
            f"  keys      {'asked for' if self.keys.required else 'none'}",
        ]


def model_lines(settings: ServerSettings, model: Model) -> list[str]:
    """What is served, how it drafts, and the memory it takes."""
    facts = model.backend.capabilities
    return [
        f"  model     {settings.model}: {facts.architecture}, context {facts.context}, {facts.exactness}",
        f"  drafting  {_drafting(settings, model)}",
        f"  memory    {memory_text(model)}; prefix cache up to {settings.prefix_cache:g} MiB",
    ]


def _drafting(settings: ServerSettings, model: Model) -> str:
    resolution = RequestOptions.parse(settings.requests, model.backend.capabilities).resolution
    chosen = ", chosen by auto" if resolution.requested == "auto" else ""
    width = resolution.settings.get("spec_draft_max")
    return f"{resolution.strategy.name}{chosen}" + (f", at most {width} tokens a round" if width else "")


def memory_of(model: Model) -> dict[str, int]:
    """Bytes by purpose, where the backend states them before it loads; the native one does."""
    if not isinstance(model.backend, NativeBackend):
        return {}
    need = model.backend.memory
    return {"weights": need.weights, "cache": need.cache, "workspace": need.workspace, "total": need.total}


def memory_text(model: Model) -> str:
    """The same for people, in MiB."""
    if not isinstance(model.backend, NativeBackend):
        return "not stated by this backend"
    need = model.backend.memory
    return f"{need.total / MEGABYTE:.0f} MiB ({need.describe()})"
