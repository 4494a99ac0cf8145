"""``/health`` of several replicas: what they have in common once, what differs for each."""

from __future__ import annotations

import os
from typing import Any

from verispec.serving.lifecycle import Lifecycle
from verispec.serving.replicas.fleet import Fleet

OF_ONE = ("status", "uptime_seconds", "requests", "memory", "pid")
"""Fields of a replica's own report that are shown for each."""


def fleet_status(fleet: Fleet, lifecycle: Lifecycle) -> str:
    """``ok`` while at least one replica serves, ``draining``, or ``failed``."""
    if lifecycle.draining:
        return "draining"
    return "ok" if fleet.serving else "failed"


async def health_report(fleet: Fleet, lifecycle: Lifecycle) -> dict[str, Any]:
    """The fields of one server's report, its requests summed, and ``replicas`` with what each says of itself."""
    reports: dict[int, dict[str, Any]] = await fleet.ask_all("report")
    common = {} if not reports else dict(next(iter(reports.values())))
    load = [report["requests"] for report in reports.values()]
    return {
        **{name: value for name, value in common.items() if name != "memory"},
        "status": fleet_status(fleet, lifecycle),
        "uptime_seconds": round(lifecycle.uptime, 3),
        "requests": {name: sum(one[name] for one in load) for name in ("running", "waiting")},
        "pid": os.getpid(),
        "replicas": [
            {
                "replica": member.number,
                **{name: reports.get(member.number, {}).get(name) for name in OF_ONE},
                "status": member.status,
                "pid": member.sign.pid if member.sign and member.serves else None,
                "node": member.sign.node if member.sign and member.serves else None,
            }
            for member in fleet.members
        ],
    }
