"""From settings to a server that answers: everything that can be refused is refused before the model is loaded."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp
from uvicorn import Config

from verispec.engine.batching.scheduler import SchedulerLimits
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.errors import EngineFailedError, OptionError
from verispec.serving.access_log import log_failure
from verispec.serving.announcement import Announcement, model_lines
from verispec.serving.app import create_app
from verispec.serving.connections import ConnectionLimits, bounded_protocol, open_file_room
from verispec.serving.engine_thread import EngineThread
from verispec.serving.health import Health
from verispec.serving.keys import KeyRing
from verispec.serving.lifecycle import DrainingServer, Engine, Lifecycle
from verispec.serving.receipts import BoundedReceipts
from verispec.serving.request_defaults import RequestDefaults
from verispec.serving.settings import ServerSettings
from verispec.serving.state import RequestBounds, ServerState

LISTEN_BACKLOG = 1024


def serve(settings: ServerSettings, as_json: bool) -> None:
    """Loads the model and serves it until a signal ends it. Raises VerispecError for what cannot be started."""
    keys = KeyRing.load(None if settings.api_keys is None else Path(settings.api_keys), os.environ)
    log_to_standard_error()
    with bind(settings.host, settings.port) as listener, load_model(settings) as model:
        address = listener.getsockname()[:2]
        announcement = Announcement(settings, model_lines(settings, model), keys, as_json, address)
        server = build_server(settings, model, keys, announcement.show)
        model.pass_costs()  # measured now, so that the first request does not wait for it
        server.run([listener])
    if server.failed:
        raise EngineFailedError("the engine has failed; the log has the place")


def load_model(settings: ServerSettings) -> Model:
    """The model with room for the answers that run at the same time."""
    return load(
        settings.model,
        ctx=settings.ctx,
        threads=settings.threads,
        backend=settings.backend,
        options=settings.requests,
        sequences=settings.parallel,
    )


def build_server(settings: ServerSettings, model: Model, keys: KeyRing, ready: Any) -> DrainingServer:
    """The server around a loaded model, ready to ``run``."""
    health, receipts = assemble(settings, model, int(time.time()))
    app = create_app(health, receipts, keys)
    server = around(app, health.state.engine, settings, health.lifecycle, ready)
    end_with_engine(server, health.state.engine)
    return server


def end_with_engine(server: DrainingServer, engine: EngineThread) -> None:
    """Has ``server`` log and end when ``engine`` fails: whoever started it then starts one that works."""

    def fail() -> None:
        log_engine_failure(engine)
        server.fail()

    engine.on_failure = fail


def log_engine_failure(engine: EngineThread) -> None:
    """Writes down where what ended ``engine`` arose."""
    assert engine.failure is not None
    log_failure("the engine", engine.failure)


def assemble(settings: ServerSettings, model: Model, created: int) -> tuple[Health, BoundedReceipts]:
    """What the routes of one engine share. ``created``: the start, in seconds since the epoch."""
    limits = SchedulerLimits(
        parallel=settings.parallel, queue=settings.queue, prefix_cache_bytes=settings.prefix_cache_bytes
    )
    defaults = RequestDefaults(settings.requests, model.backend.capabilities)
    receipts = BoundedReceipts(settings.receipts)
    engine = EngineThread(model, limits)
    engine.on_failure = lambda: log_engine_failure(engine)
    state = ServerState(
        engine=engine,
        model_id=model_id(settings.model),
        receipts=receipts,
        created=created,
        aliases=frozenset(settings.alias),
        bounds=RequestBounds(answers=settings.queue + settings.parallel, deadline=settings.deadline),
        with_defaults=defaults.under,
    )
    return Health(state, settings, Lifecycle(), defaults.resolution.as_dict()), receipts


def around(
    app: ASGIApp, engine: Engine, settings: ServerSettings, lifecycle: Lifecycle, ready: Any
) -> DrainingServer:
    """The HTTP server that gives requests to ``app`` and drains ``engine`` when it is told to end."""
    config = Config(
        app,
        http=bounded_protocol(
            ConnectionLimits(
                open_file_room(settings.max_connections), settings.header_timeout, settings.write_timeout
            )
        ),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=LISTEN_BACKLOG,
        timeout_keep_alive=max(1, round(settings.keep_alive)),
    )
    return DrainingServer(config, engine, lifecycle, settings.drain, ready)


def model_id(name: str) -> str:
    """What the model is called in answers: its name, or its file's name without folder and ending."""
    return Path(name).stem if name.endswith((".gguf", ".safetensors")) else Path(name).name


def bind(host: str, port: int) -> socket.socket:
    """A socket with the address, not listening yet: until the model is loaded, clients are refused at once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise OptionError(
            f"host: expected a name or address of this machine, found {host!r}: {error}"
        ) from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OptionError(f"host, port: cannot listen on {host} port {port}: {error.strerror}") from error
    return listener


def log_to_standard_error() -> None:
    """The server's own lines; uvicorn's repeat them, and would quote what clients sent."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("verispec")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
