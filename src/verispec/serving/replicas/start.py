"""From settings to a front with its replicas, and to their end."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from pathlib import Path

from verispec.errors import BackendError
from verispec.serving.announcement import Announcement
from verispec.serving.keys import KeyRing
from verispec.serving.lifecycle import Lifecycle
from verispec.serving.replicas.cluster import import_ray, running_replicas
from verispec.serving.replicas.fleet import Fleet
from verispec.serving.replicas.front import create_front
from verispec.serving.settings import ServerSettings
from verispec.serving.start import around, bind, log_to_standard_error

START_SECONDS = 600.0
"""For every replica to have loaded its model."""
POLL_SECONDS = 0.2


def serve_replicas(settings: ServerSettings, as_json: bool) -> None:
    """Starts the replicas and serves them until a signal ends it. Raises VerispecError for what cannot be started."""
    import_ray(settings.ray_address is None)
    keys = KeyRing.load(None if settings.api_keys is None else Path(settings.api_keys), os.environ)
    log_to_standard_error()
    settings = with_threads(settings, os.cpu_count() or 1)
    with bind(settings.host, settings.port) as listener:
        address = listener.getsockname()[:2]
        with running_replicas(settings, address[1], int(time.time())) as connections:
            fleet = Fleet(connections, settings.parallel)
            lines = asyncio.run(all_up(fleet))
            lines.append(f"  replicas  {settings.replica_count}, each with all of this but the address")
            announcement = Announcement(settings, lines, keys, as_json, address)
            lifecycle = Lifecycle()
            app = create_front(fleet, settings, lifecycle, keys)
            around(app, fleet, settings, lifecycle, announcement.show).run([listener])


def with_threads(settings: ServerSettings, cores: int) -> ServerSettings:
    """Replicas of one machine share its cores where nothing else was asked for."""
    if settings.threads is not None or settings.ray_address is not None:
        return settings
    return dataclasses.replace(settings, threads=max(1, cores // settings.replica_count))


async def all_up(fleet: Fleet) -> list[str]:
    """Waits for every replica, and gives what they announce. Raises BackendError for one that cannot serve."""
    limit = time.monotonic() + START_SECONDS
    while len(fleet.serving) < len(fleet.members):
        for member in fleet.members:
            await fleet.look(member)
            if member.sign is not None and member.sign.failure is not None:
                raise BackendError(member.sign.failure)
            if time.monotonic() > limit:
                raise BackendError(f"replica {member.number}: expected it to start, found it {member.status}")
        await asyncio.sleep(POLL_SECONDS)
    said = await fleet.ask_all("lines")
    return list(next(iter(said.values()), []))
