"""Claims on devices of this machine: whoever holds one measures there alone, whatever else the lab is doing."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner, Progress, run_lane
from verispec.lab.ledger.ledger import Ledger


def parts_of(device: str) -> list[str]:
    """What a device is made of: ``cpu:0,1`` is two processors, ``cpu`` all of them, anything else itself."""
    if device == "cpu":
        return [f"cpu-{core}" for core in range(os.cpu_count() or 1)]
    if device.startswith("cpu:"):
        return [f"cpu-{int(core)}" for core in sorted(device[4:].split(","), key=int)]
    return [re.sub(r"\W", "-", device)]


@contextmanager
def claimed(
    device: str, folder: Path | None = None, waiting: Callable[[str], None] = lambda device: None
) -> Iterator[None]:
    """Waits until nobody else holds any part of ``device``; ``waiting`` is told when it must.

    The claim ends with the process, however that ends.
    """
    place = folder or Path(tempfile.gettempdir()) / f"verispec-devices-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    told = False
    with ExitStack() as held:
        for part in parts_of(device):  # always in one order, so that two never wait for each other
            file = held.enter_context((place / part).open("ab"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    waiting(device)
                    told = True
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def claiming(
    otherwise: LaneRunner | None = None, waiting: Callable[[str], None] = lambda device: None
) -> LaneRunner:
    """Runs each lane as ``otherwise`` does, once its device is free."""

    def run(ledger: Ledger, request: LaneRequest, progress: Progress) -> tuple[str, dict[str, Any]]:
        with claimed(request.device, waiting=waiting):
            return (otherwise or run_lane)(ledger, request, progress)

    return run
