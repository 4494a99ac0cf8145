"""Serves the dashboard until a signal ends it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection

from uvicorn import Config, Server

from verispec.errors import OptionError
from verispec.lab.dashboard.app import create_dashboard
from verispec.lab.ledger.ledger import Ledger
from verispec.serving.origins import is_loopback


def serve_dashboard(
    ledger: Ledger, host: str, port: int, hosts: Collection[str], ready: Callable[[str], None]
) -> None:
    """Listens on ``host`` and ``port`` (0: a free one) and calls ``ready`` with the address. OptionError when it
    cannot. Only a loopback address looks at the names that it is called by."""
    with listen(host, port) as listener:
        server = dashboard_server(ledger, hosts if is_loopback(host) else None)
        found = listener.getsockname()
        ready(f"http://[{found[0]}]:{found[1]}" if ":" in found[0] else f"http://{found[0]}:{found[1]}")
        server.run([listener])


def dashboard_server(ledger: Ledger, hosts: Collection[str] | None) -> Server:
    """uvicorn around the dashboard; ``run`` takes the socket."""
    config = Config(
        create_dashboard(ledger, hosts),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=64,
        timeout_graceful_shutdown=5,
    )
    return Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError, OverflowError) as error:
        raise OptionError(f"host, port: cannot listen on {host} port {port}: {error}") from error
