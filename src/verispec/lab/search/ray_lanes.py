"""Lanes on a Ray cluster: each claims its device, runs against a ledger of its own, and sends the evidence home."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.errors import BackendError, OptionError, UnsupportedError
from verispec.lab.lane.device_claims import claiming
from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner, Progress
from verispec.lab.lane.telemetry import with_telemetry
from verispec.lab.ledger.ledger import Ledger

SET_BY_RAY = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""What Ray sets for its workers; a server that inherited it would not be the one that was described."""
STORE_BYTES = 80 * 2**20


@dataclass(frozen=True, slots=True)
class Shipment:
    """What one lane wrote down: its records in order, and its server's log."""

    records: tuple[dict[str, Any], ...]
    log: bytes


def resource_of(device: str) -> str:
    """The name under which a node offers a device to the lab: ``verispec-cuda-0``."""
    return "verispec-" + re.sub(r"\W", "-", device)


@contextmanager
def lanes_on_ray(address: str | None, devices: Sequence[str]) -> Iterator[LaneRunner]:
    """Runs lanes on the cluster at ``address``, or on one of this machine that ends with the block.

    Every device is a resource of exactly one, so that no two lanes share it and the lanes of a block share a place.
    Raises UnsupportedError without Ray, OptionError when the cluster does not offer a device, BackendError when it
    cannot be reached or loses a lane.
    """
    ray = _import_ray(address is None)
    with tempfile.TemporaryDirectory(prefix="verispec-ray-", ignore_cleanup_errors=True) as folder:
        try:
            _connect(ray, address, devices, folder)
        except Exception as error:  # Ray has no narrower one
            ray.shutdown()
            raise BackendError(f"Ray: {type(error).__name__}: {error}") from error
        try:
            _check(ray.cluster_resources(), devices)
            yield _runner(ray)
        finally:
            ray.shutdown()


def _runner(ray: Any) -> LaneRunner:
    environment = {name: os.environ.get(name) for name in SET_BY_RAY}
    remote = ray.remote(max_retries=0)(measure_elsewhere)
    writing = threading.Lock()

    def run(ledger: Ledger, request: LaneRequest, progress: Progress) -> tuple[str, dict[str, Any]]:
        task = remote.options(num_cpus=0, resources={resource_of(request.device): 1})
        try:
            shipment: Shipment = ray.get(task.remote(request, environment))
        except ray.exceptions.RayError as error:
            raise BackendError(f"Ray: lane {request.lane} was lost: {error}") from error
        with writing:
            return unload(ledger, shipment)

    return run


def measure_elsewhere(request: LaneRequest, environment: Mapping[str, str | None]) -> Shipment:
    """Runs in a worker. ``environment`` is what the variables that Ray sets were where the search was started."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        del os.environ[name]
    for name, value in environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    with tempfile.TemporaryDirectory(prefix="verispec-lane-ledger-") as folder:
        ledger = Ledger(Path(folder))
        _, lane = claiming(with_telemetry())(ledger, request, lambda done, total: None)
        log = b"" if lane["log"] is None else ledger.logs.get_bytes(lane["log"], ".log")
        return Shipment(tuple(record for _, record in ledger.records()), log)


def unload(ledger: Ledger, shipment: Shipment) -> tuple[str, dict[str, Any]]:
    """Writes a shipment into the ledger at home; digests are those of the content, so they are the same.

    Gives digest and record of the lane, beside which its rows and telemetry came.
    """
    ledger.logs.put_bytes(shipment.log, ".log")
    digests = [ledger.add(record) for record in shipment.records]
    place = next(place for place, record in enumerate(shipment.records) if record["kind"] == "lane")
    return digests[place], shipment.records[place]


def _import_ray(local: bool) -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if (
        local
    ):  # listens on the loopback address, and asks for a token that only this process and its children have
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    try:
        import ray
    except ImportError as error:
        raise UnsupportedError(
            "ray-missing",
            "--ray runs lanes on Ray, which is not installed",
            "pip install 'verispec[ray]' installs it",
        ) from error
    return ray


def _connect(ray: Any, address: str | None, devices: Sequence[str], folder: str) -> None:
    if address is not None:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        return
    ray.init(
        address="local",
        num_cpus=len(devices),
        num_gpus=0,
        resources={resource_of(device): 1 for device in devices},
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        logging_level="ERROR",
        log_to_driver=False,
        _temp_dir=folder,
    )


def _check(offered: Mapping[str, float], devices: Sequence[str]) -> None:
    for device in devices:
        name = resource_of(device)
        if offered.get(name) != 1:
            raise OptionError(
                f"devices: {device}: expected a cluster with exactly one {name} "
                f"(ray start --resources='{{\"{name}\": 1}}'), found {offered.get(name, 0):g}"
            )
