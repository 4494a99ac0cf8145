"""Facts of the machine at the start of a lane, accelerators included, as far as it tells them."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import psutil

from verispec.bench.host import host_facts, load_average

GPU_FIELDS = (
    "index",
    "name",
    "uuid",
    "driver_version",
    "memory.total",
    "clocks.sm",
    "clocks.mem",
    "power.limit",
)
SECONDS = 20.0


def machine_facts() -> dict[str, Any]:
    """The host, its governor and huge pages, its GPUs with driver and clocks, and the frequency of its processors: all
    as they are now, since people and daemons change them while a lab runs."""
    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return {
        **host_facts(),
        "cpu_mhz": round(frequency.current, 1) if frequency else None,
        "memory_available_bytes": psutil.virtual_memory().available,
        "gpus": gpus(),
    }


def load_now() -> list[float]:
    """Runnable processes over the last 1, 5 and 15 minutes."""
    return load_average()


def gpus() -> list[dict[str, str]]:
    """One entry a GPU, from the driver's own tool; empty where there is none.

    NVIDIA's tool is asked by field. Of AMD's and Intel's the whole report is kept as text.
    """
    table = _run("nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader,nounits")
    if table:
        rows = [[cell.strip() for cell in line.split(",")] for line in table.splitlines() if line.strip()]
        return [dict(zip(GPU_FIELDS, row, strict=False)) for row in rows]
    for tool, arguments in (
        ("rocm-smi", ("--showproductname", "--showdriverversion", "--showclocks")),
        ("xpu-smi", ("discovery",)),
    ):
        report = _run(tool, *arguments)
        if report:
            return [{"tool": tool, "report": report}]
    return []


def _run(tool: str, *arguments: str) -> str | None:
    path = shutil.which(tool)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
