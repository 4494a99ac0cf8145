"""Ray around the replicas: a cluster of this machine's own, or one that is there; what is started here ends here."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import socket
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from verispec.errors import BackendError, OptionError, UnsupportedError
from verispec.serving.replicas.loopback import keep_to_loopback
from verispec.serving.replicas.member import Connection
from verispec.serving.replicas.replica import Replica
from verispec.serving.settings import MEGABYTE, ServerSettings

OBJECT_STORE_MIB = 128
"""Ray's shared memory. Requests and answers are small and do not pass through it."""
UNBOUNDED = 1 << 20
"""Requests that Ray gives to a replica at once. The engine has its own queue and refuses what is too much."""
ATTEMPTS = 3
"""To start a cluster: Ray gives its processes 30 seconds, which is little on a busy machine."""
REACH_SECONDS = 5.0
"""For the head of a cluster to take a connection."""
CHECK_SECONDS = 2.0
"""Between two looks of Ray at a replica."""
CHECK_PATIENCE_SECONDS = 30.0
"""For the replica to answer one; a busy machine is slow and not dead."""


def import_ray(local: bool) -> None:
    """Imports Ray Serve, set up as ``prepare_environment`` says. Raises UnsupportedError where it is not installed."""
    prepare_environment(os.environ, local)
    try:
        import ray.serve  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            "ray-missing",
            "--ray runs replicas on Ray Serve, which is not installed",
            "pip install 'verispec[ray]' installs it",
        ) from error
    for name in ("ray", "ray.serve"):
        logging.getLogger(name).setLevel(logging.ERROR)


@contextmanager
def running_replicas(settings: ServerSettings, port: int, created: int) -> Iterator[list[Connection]]:
    """Connections to the replicas, which load their models meanwhile and afterwards. Raises BackendError.

    ``import_ray`` comes before.
    """
    import ray

    with tempfile.TemporaryDirectory(prefix="verispec-ray-", ignore_cleanup_errors=True) as folder:
        try:
            _connect(settings, folder)
        except OptionError:
            raise
        except Exception as error:  # Ray has no narrower one
            raise BackendError(f"Ray: {type(error).__name__}: {error}") from error
        names = [f"verispec-{platform.node()}-{port}-{number}" for number in range(settings.replica_count)]
        try:
            yield _deploy(settings, names, created)
        finally:
            if settings.ray_address is not None:
                _delete(names)
            ray.shutdown()


def prepare_environment(environment: MutableMapping[str, str], local: bool) -> None:
    """What Ray reads when it is imported and started: it reports to nobody.

    A cluster of this machine's own listens on the loopback address alone, and asks every process that connects for a
    token that only this server and its children have: whoever can give Ray work runs code as this user.
    """
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    if local:
        # On any system "0" means that the node's address is 127.0.0.1.
        environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        environment["RAY_AUTH_MODE"] = "token"
        environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _connect(settings: ServerSettings, folder: str) -> None:
    import ray

    if settings.ray_address is not None:
        check_address(settings.ray_address)
        ray.init(address=settings.ray_address, logging_level="ERROR", log_to_driver=True)
        return
    for attempt in range(ATTEMPTS):
        try:
            _start_cluster(settings, folder)
            return
        except Exception:
            ray.shutdown()
            if attempt == ATTEMPTS - 1:
                raise


def _start_cluster(settings: ServerSettings, folder: str) -> None:
    import ray

    ray.init(
        address="local",
        num_cpus=settings.replica_count,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_MIB * MEGABYTE,
        logging_level="ERROR",
        log_to_driver=True,
        _temp_dir=folder,
    )


def check_address(address: str) -> None:
    """Raises OptionError for an address at which nothing listens: Ray would go on trying for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise OptionError(f"ray_address: expected auto or HOST:PORT of a cluster's head, found {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise OptionError(f"ray_address: nothing answers at {address}: {error}") from error


def _deploy(settings: ServerSettings, names: list[str], created: int) -> list[Connection]:
    """One application of one replica each, so that each can be reached by its number."""
    from ray import serve

    from verispec.serving.replicas.ray_replica import RayReplica

    serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR", "enable_access_log": False})
    deployment = serve.deployment(
        Replica if settings.ray_address is not None else LoopbackReplica,
        name="replica",
        num_replicas=1,
        max_ongoing_requests=UNBOUNDED,
        ray_actor_options={"num_cpus": 1 if settings.ray_address is None else settings.threads or 1},
        health_check_period_s=CHECK_SECONDS,
        health_check_timeout_s=CHECK_PATIENCE_SECONDS,
        graceful_shutdown_timeout_s=1.0,
        logging_config={"log_level": "ERROR", "enable_access_log": False},
    )
    targets = [
        serve.RunTarget(deployment.bind(settings, created), name=name, route_prefix=None) for name in names
    ]
    return [RayReplica(handle) for handle in serve.run_many(targets, wait_for_applications_running=False)]


class LoopbackReplica(Replica):
    """A replica in a cluster of this machine's own."""

    async def __init__(self, settings: ServerSettings, created: int) -> None:  # type: ignore[misc]  # Serve awaits it
        keep_to_loopback()
        await Replica.__init__(self, settings, created)


def _delete(names: list[str]) -> None:
    from ray import serve

    for name in names:
        serve.delete(name, _blocking=False)
