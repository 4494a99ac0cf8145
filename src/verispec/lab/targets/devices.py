"""Where a server runs: ``cpu``, ``cpu:0,1``, or what a profile's device variable takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from verispec.errors import OptionError
from verispec.lab.targets.target import Target

PROCESSORS = re.compile(r"cpu(:\d+(,\d+)*)?")
FORMS = "cpu, cpu:N,N or a name for the profile's device variable"


def check_devices(devices: Sequence[str], targets: Iterable[Target], where: str) -> None:
    """OptionError unless ``devices`` are one or more different ones, each of which each of ``targets`` can run on."""
    if not devices or len(set(devices)) < len(devices):
        raise OptionError(f"{where}: expected one or more different devices, found {list(devices)}")
    arms = list(targets)
    for device in devices:
        check_device(device, arms, where)


def check_device(device: str, targets: Iterable[Target], where: str) -> None:
    """OptionError for a device that is none, or that nothing would put a server of one of ``targets`` on."""
    if PROCESSORS.fullmatch(device):
        cores = device.partition(":")[2].split(",")
        if len(set(cores)) < len(cores):
            raise OptionError(f"{where}: expected different processors, found {device!r}")
        return
    if not device.strip() or device.lower().startswith("cpu"):
        raise OptionError(f"{where}: expected {FORMS}, found {device!r}")
    for target in targets:
        if target.profile.device_variable is None:
            raise OptionError(
                f"{where}: expected {FORMS}, found {device!r}: "
                f"the profile {target.profile.engine} of {target.name} has no device_variable"
            )
