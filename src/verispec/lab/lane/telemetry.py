"""Clocks, power and temperatures while a lane runs, from wherever the host shows them. What it hides is said."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verispec.lab.lane.request import LaneRequest
from verispec.lab.lane.run import LaneRunner, Progress, run_lane
from verispec.lab.ledger.ledger import Ledger

SECONDS = 0.5
MOST_SAMPLES = 600
GPU_CHANNELS = {
    "clocks.sm": "MHz",
    "clocks.mem": "MHz",
    "power.draw": "W",
    "temperature.gpu": "C",
    "utilization.gpu": "%",
}
GPU_TIME = "%Y/%m/%d %H:%M:%S.%f"
"""How the driver writes a time, in the zone of this machine."""
KINDS = {"clock": "MHz", "power": "W", "temperature": "C"}
"""What every host is asked for, and the unit in which it comes."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A file with a number. ``scale`` takes it to ``unit``; of a ``counter`` the change a second is what is meant."""

    name: str
    path: Path
    scale: float
    unit: str
    counter: bool = False

    def read(self) -> float | None:
        try:
            return float(self.path.read_text()) * self.scale
        except (OSError, ValueError):  # gone, not readable by this user, or no number
            return None


def host_channels(system: Path = Path("/sys")) -> list[Channel]:
    """Everything below ``system`` that can be read now: processor clocks, sensors, energy counters."""
    found = [
        Channel(f"clock {path.parts[-3]}", path, 1e-3, "MHz")
        for path in sorted(system.glob("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
    ]
    for path in sorted(system.glob("class/thermal/thermal_zone*/temp")):
        found.append(Channel(f"temperature {_word(path.with_name('type'))}", path, 1e-3, "C"))
    for folder in sorted(system.glob("class/hwmon/hwmon*")):
        chip = _word(folder / "name")
        for path in sorted(folder.iterdir()):
            if re.fullmatch(r"temp\d+_input", path.name):
                found.append(Channel(f"temperature {chip} {path.name[:-6]}", path, 1e-3, "C"))
            elif re.fullmatch(r"power\d+_(input|average)", path.name):
                found.append(Channel(f"power {chip} {path.name.partition('_')[0]}", path, 1e-6, "W"))
            elif re.fullmatch(r"freq\d+_input", path.name):
                found.append(Channel(f"clock {chip} {path.name[:-6]}", path, 1e-6, "MHz"))
    for path in sorted(system.glob("class/powercap/*/energy_uj")):
        found.append(Channel(f"power {_word(path.with_name('name'))}", path, 1e-6, "W", counter=True))
    once: dict[str, Channel] = {}
    for channel in found:
        name = channel.name
        number = 2
        while channel.name in once:
            channel = Channel(f"{name} {number}", channel.path, channel.scale, channel.unit, channel.counter)
            number += 1
        if channel.read() is not None:
            once[channel.name] = channel
    return list(once.values())


@dataclass(slots=True)
class Series:
    """What one channel showed. Least, most and mean are of every value; of a long lane every second, fourth ... sample
    (seconds since the start, value) is kept, so that there are never more than ``MOST_SAMPLES``."""

    unit: str
    samples: list[tuple[float, float]] = field(default_factory=list)
    every: int = 1
    count: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    def add(self, when: float, value: float) -> None:
        if self.count % self.every == 0:
            if len(self.samples) == MOST_SAMPLES:
                del self.samples[1::2]
                self.every *= 2
            if self.count % self.every == 0:
                self.samples.append((round(when, 3), round(value, 3)))
        self.count += 1
        self.total += value
        self.least, self.most = min(self.least, value), max(self.most, value)

    def record(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "min": round(self.least, 3),
            "mean": self.total / self.count,
            "max": round(self.most, 3),
            "samples": [list(one) for one in self.samples],
        }


@dataclass(slots=True)
class Telemetry:
    """What the channels showed during one lane, by their names."""

    series: dict[str, Series] = field(default_factory=dict)

    def add(self, name: str, unit: str, when: float, value: float) -> None:
        self.series.setdefault(name, Series(unit)).add(when, value)

    def record(self) -> dict[str, Any]:
        """Samples, their summaries, and which kinds the host shows nothing of."""
        units = {one.unit for one in self.series.values()}
        shown = {name.split(" ")[0] for name in self.series} | {
            kind for kind, unit in KINDS.items() if unit in units
        }
        return {
            "channels": {name: one.record() for name, one in self.series.items()},
            "not_shown": [kind for kind in KINDS if kind not in shown],
        }


@contextlib.contextmanager
def sampled(system: Path = Path("/sys"), seconds: float = SECONDS) -> Iterator[Telemetry]:
    """Samples while the block runs: a thread reads files, and the GPU driver's own tool runs beside, where it is."""
    telemetry = Telemetry()
    channels = host_channels(system)
    done = threading.Event()
    began, began_wall = time.monotonic(), time.time()
    thread = threading.Thread(target=_sample, args=(telemetry, channels, done, seconds, began), daemon=True)
    with _gpu_log(seconds) as gpus:
        thread.start()
        try:
            yield telemetry
        finally:
            done.set()
            thread.join()
    for line in gpus:
        _add_gpu(telemetry, line, began_wall)


def with_telemetry(
    otherwise: LaneRunner | None = None, system: Path = Path("/sys"), seconds: float = SECONDS
) -> LaneRunner:
    """Runs each lane as ``otherwise`` does, and keeps beside it what the host showed meanwhile."""

    def run(ledger: Ledger, request: LaneRequest, progress: Progress) -> tuple[str, dict[str, Any]]:
        with sampled(system, seconds) as telemetry:
            result = (otherwise or run_lane)(ledger, request, progress)
        place = {"lane": request.lane, "experiment": request.experiment, "arm": request.arm}
        ledger.add({"kind": "telemetry", **place, "seconds": seconds, **telemetry.record()})
        return result

    return run


def _sample(
    telemetry: Telemetry, channels: Sequence[Channel], done: threading.Event, seconds: float, began: float
) -> None:
    before: dict[str, tuple[float, float]] = {}
    ended = False
    while not ended:
        ended = done.wait(seconds)
        for channel in channels:
            now, value = time.monotonic(), channel.read()
            if value is None:
                continue
            if not channel.counter:
                telemetry.add(channel.name, channel.unit, now - began, value)
                continue
            if channel.name in before:
                then, count = before[channel.name]
                if value >= count:  # it wraps around now and then
                    telemetry.add(channel.name, channel.unit, now - began, (value - count) / (now - then))
            before[channel.name] = (now, value)


@contextlib.contextmanager
def _gpu_log(seconds: float) -> Iterator[list[str]]:
    """Lines that the driver's tool has printed, there once the block is over."""
    lines: list[str] = []
    tool = shutil.which("nvidia-smi")
    if tool is None:
        yield lines
        return
    fields = ",".join(("timestamp", "index", *GPU_CHANNELS))
    query = [
        tool,
        f"--query-gpu={fields}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={int(1000 * seconds)}",
    ]
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            query, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield lines
            finally:
                process.terminate()
        output.seek(0)
        lines += output.read().decode(errors="replace").splitlines()


def _add_gpu(telemetry: Telemetry, line: str, began: float) -> None:
    """One line is one GPU at the time that the driver says; "[N/A]" is what it does not tell. ``began`` is a time of
    the wall clock."""
    moment, *cells = (cell.strip() for cell in line.split(","))
    if len(cells) != 1 + len(GPU_CHANNELS):
        return
    index, *cells = cells
    try:
        when = datetime.datetime.strptime(moment, GPU_TIME).timestamp() - began
    except ValueError:  # a line that was cut when the lane ended
        return
    for (name, unit), cell in zip(GPU_CHANNELS.items(), cells, strict=True):
        channel = f"gpu {index} {name}"
        with contextlib.suppress(ValueError):
            telemetry.add(channel, unit, when, float(cell))


def _word(path: Path) -> str:
    try:
        return path.read_text().strip().replace(" ", "-") or path.parent.name
    except OSError:
        return path.parent.name
