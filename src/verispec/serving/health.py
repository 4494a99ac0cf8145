"""``/health``: whether the server takes requests, and what it would do with them."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response

from verispec import __version__
from verispec.serving.announcement import memory_of
from verispec.serving.lifecycle import Lifecycle
from verispec.serving.settings import ServerSettings
from verispec.serving.state import ServerState

LIBRARIES = ("numpy", "tokenizers", "llguidance", "fastapi", "uvicorn", "pydantic")


@dataclass(frozen=True, slots=True)
class Health:
    """What the report is made from. ``resolved`` says what a request runs with that names no option."""

    state: ServerState
    settings: ServerSettings
    lifecycle: Lifecycle
    resolved: dict[str, Any]

    @property
    def status(self) -> str:
        """``ok``, ``draining``, or ``failed`` once the engine is gone."""
        if self.state.engine.failure is not None:
            return "failed"
        if self.lifecycle.draining:
            return "draining"
        return "ok" if self.state.engine.alive else "failed"

    def report(self) -> dict[str, Any]:
        """Everything, for callers with a key; constant but for status, uptime and load."""
        model = self.state.engine.model
        statistics = self.state.engine.statistics
        return {
            "status": self.status,
            "uptime_seconds": round(self.lifecycle.uptime, 3),
            "model": self.state.model_id,
            "aliases": sorted(self.state.aliases),
            "requests": {"running": statistics.running, "waiting": statistics.waiting},
            "options": self.settings.as_dict(),
            "speculation": self.resolved,
            "capabilities": model.capabilities(),
            "chat": model.template is not None,
            "artifacts": dict(model.artifacts),
            "tokenizer": model.tokenizer.digest,
            "build": model.backend.identity(),
            "memory": memory_of(model),
            "versions": VERSIONS,
            "pid": os.getpid(),
        }


def health_routes(health: Health) -> APIRouter:
    """``GET /health``: 200 while requests are taken, otherwise 503.

    Without a key, on a server that has keys, it says the status alone.
    """
    routes = APIRouter()

    @routes.get(
        "/health", summary="Whether the server takes requests; options, capabilities, digests, build, limits"
    )
    async def read_health(request: Request, response: Response) -> dict[str, Any]:
        response.status_code = 200 if health.status == "ok" else 503
        if not request.state.trusted:
            return {"status": health.status}
        return health.report()

    return routes


def _versions() -> dict[str, str]:
    found = {"verispec": __version__, "python": platform.python_version(), "platform": sys.platform}
    return found | {name: version(name) for name in LIBRARIES}


VERSIONS = _versions()
