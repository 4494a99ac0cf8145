"""Facts of the machine and the software that a measurement was made with."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

CPU_FLAGS = (
    "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "asimd", "asimddp", "i8mm", "sve",
)  # fmt: skip
"""The instruction sets that kernels of this kind live on; the whole list of a CPU is long."""
PACKAGES = ("verispec", "numpy")


def host_facts() -> dict[str, Any]:
    """Everything about this machine that can change a measurement."""
    from verispec import _native

    cpu = _cpu_info()
    memory = psutil.virtual_memory()
    return {
        "cpu": cpu.get("model name") or platform.processor() or platform.machine(),
        "cpu_flags": [
            flag for flag in CPU_FLAGS if flag in cpu.get("flags", cpu.get("Features", "")).split()
        ],
        "cores": {"physical": psutil.cpu_count(logical=False), "logical": os.cpu_count()},
        "hypervisor": "hypervisor" in cpu.get("flags", "").split(),
        "memory_bytes": memory.total,
        "huge_pages": _choice("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": _line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "kernel": platform.release(),
        "system": _distribution(),
        "python": sys.version.split()[0],
        "compiler": _native.compiler(),
        "versions": {name: version for name in PACKAGES if (version := package_version(name))},
    }


def load_average() -> list[float]:
    """Runnable processes over the last 1, 5 and 15 minutes; ours included."""
    return [round(value, 2) for value in os.getloadavg()]


def package_version(name: str) -> str | None:
    """The installed version of a distribution; None when it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu_info() -> dict[str, str]:
    """The first processor's block of /proc/cpuinfo; empty elsewhere."""
    try:
        block = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _line(path: str) -> str | None:
    try:
        return Path(path).read_text().strip() or None
    except OSError:
        return None


def _choice(path: str) -> str | None:
    """The chosen one of a line such as ``always [madvise] never``."""
    line = _line(path)
    return line.partition("[")[2].partition("]")[0] or None if line else None


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)
