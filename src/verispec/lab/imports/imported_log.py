"""Lanes of a foreign log: summaries only, with what the log says of each and what is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.evidence_rows import LaneValues, PromptValue

FORMAT = "verispec.lab.imported-log/1"


@dataclass(frozen=True, slots=True)
class ImportedLane:
    """One lane. ``batch`` is the table it stands in, ``stamp`` the moment its run was started (both as logged).

    ``arm`` is what ran, ``control`` whether the log calls it a control, ``suite`` the prompts (``"whole"`` for
    all), ``stage`` the cap of tokens. ``metrics`` are in
    tokens per second. ``faults`` are why it may not be compared; without any it is valid.
    """

    lane: str
    experiment: str
    batch: str
    stamp: str
    arm: str
    control: bool
    device: str
    suite: str
    stage: str
    metrics: dict[str, float]
    faults: tuple[str, ...]

    def values(self, metric: str, block: str) -> LaneValues:
        """The lane as one value of one metric, the only form in which a summary can be compared."""
        value = PromptValue("lane", "lane", self.metrics[metric])
        return LaneValues(self.lane, self.arm, block, self.device, 0, (value,))


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """All lanes of a log, in its order. ``digest`` is the SHA-256 of the file that they come from."""

    source: str
    digest: str
    lanes: tuple[ImportedLane, ...]

    @property
    def valid(self) -> list[ImportedLane]:
        return [lane for lane in self.lanes if not lane.faults]

    def batches(self) -> Iterator[list[ImportedLane]]:
        """The valid lanes of each table, in the log's order."""
        groups: dict[tuple[str, str], list[ImportedLane]] = {}
        for lane in self.valid:
            groups.setdefault((lane.experiment, lane.batch), []).append(lane)
        yield from groups.values()

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "source": self.source,
            "sha256": self.digest,
            "lanes": [asdict(lane) for lane in self.lanes],
        }


def read_log(path: Path) -> ImportedLog:
    """A log that ``lab import`` wrote. OptionError for anything else; of a CSV file it says what to do with it."""
    if path.suffix.lower() == ".csv":
        raise OptionError(
            f"{path}: expected a log that `verispec lab import` wrote, found a CSV file: "
            f"`verispec lab import b70-csv {path}` makes one of it, which `lab analyse` then reads"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise OptionError(
            f"{path}: expected a log that `verispec lab import` wrote, found {error}"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise OptionError(f"{path}: expected the format {FORMAT}, found another file; import it first")
    try:
        return ImportedLog(str(content["source"]), str(content["sha256"]), _lanes(content["lanes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(f"{path}: expected whole lanes, found one with a fault at {error}") from error


def _lanes(entries: Sequence[dict[str, Any]]) -> tuple[ImportedLane, ...]:
    return tuple(
        ImportedLane(
            **{
                name: str(entry[name])
                for name in ("lane", "experiment", "batch", "stamp", "arm", "device", "suite", "stage")
            },
            control=bool(entry["control"]),
            metrics={str(name): _rate(value) for name, value in entry["metrics"].items()},
            faults=tuple(str(fault) for fault in entry["faults"]),
        )
        for entry in entries
    )


def _rate(value: Any) -> float:
    rate = float(value)
    if not (rate > 0 and math.isfinite(rate)):
        raise ValueError(f"a rate of {rate}")
    return rate
