"""The bank of past controls: how much identical lanes vary, and what past candidates turned out to be worth."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verispec.errors import OptionError
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.statistics.block_effects import log_values, shared_prompts
from verispec.lab.statistics.evidence import LaneNoise
from verispec.lab.statistics.identical_lanes import lane_noise
from verispec.lab.statistics.shrinkage import EffectPrior, learn_effects
from verispec.lab.statistics.variance_components import VarianceComponents, variance_components

FORMAT = "verispec.lab.noise-bank/1"
PUBLISHED = Path(__file__).parent / "data" / "noise-bank-b70.json"
"""The bank of a public log, for planning until one has controls of one's own: ``lab analyse --bank`` wrote it."""


@dataclass(frozen=True, slots=True)
class NoiseBank:
    """Of one engine, device, suite, ``stage`` (the cap of tokens) and ``metric``.

    ``batches`` hold the metric of identical lanes that ran together, in its own unit. ``effects`` (log scale) and
    ``standard_errors`` are the estimates of past candidates, all of them, losses and ties included. ``components`` says
    how much of the noise more prompts would average away, where lanes were kept prompt by prompt.
    """

    source: str
    stage: str
    metric: str
    batches: tuple[tuple[float, ...], ...]
    effects: tuple[float, ...] = ()
    standard_errors: tuple[float, ...] = ()
    components: VarianceComponents | None = None

    @property
    def noise(self) -> LaneNoise:
        """How much one lane varies, on the log scale."""
        return lane_noise(self.batches)

    def prior(self) -> EffectPrior:
        """What a new candidate is likely to be worth."""
        return learn_effects(self.effects, self.standard_errors)

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "stage": self.stage,
            "metric": self.metric,
            "lane_deviation_percent": round(100 * self.noise.deviation, 4),
            "batches": [list(batch) for batch in self.batches],
            "effects": [round(one, 6) for one in self.effects],
            "standard_errors": [round(one, 6) for one in self.standard_errors],
            "components": None if self.components is None else asdict(self.components),
        }


def bank_of_lanes(source: str, stage: str, metric: str, batches: Sequence[Sequence[LaneValues]]) -> NoiseBank:
    """Of batches of identical lanes with values by prompt; a lane counts as its geometric mean, as in decisions.

    Every batch holds at least two lanes, and all lanes share at least two prompts.
    """
    components = variance_components(batches)
    prompts = shared_prompts([lane for batch in batches for lane in batch])
    means = tuple(
        tuple(float(np.exp(log_values(lane, prompts).mean())) for lane in batch) for batch in batches
    )
    return NoiseBank(source, stage, metric, means, components=components)


def write_banks(banks: Sequence[NoiseBank], path: Path) -> None:
    """One line a bank."""
    lines = ",\n".join(json.dumps(bank.as_dict()) for bank in banks)
    path.write_text(f'{{"format": "{FORMAT}", "banks": [\n{lines}\n]}}\n', encoding="utf-8")


def read_bank(path: Path, stage: str, metric: str) -> NoiseBank:
    """The bank of one stage and metric out of a file of banks."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: expected JSON of {FORMAT}, found {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise OptionError(f"{path}: expected the format {FORMAT}, found another file")
    banks = [_bank(entry, path) for entry in content.get("banks", [])]
    for bank in banks:
        if (bank.stage, bank.metric) == (stage, metric):
            return bank
    held = ", ".join(f"{bank.stage} {bank.metric}" for bank in banks) or "none"
    raise OptionError(f"{path}: expected a bank of stage {stage} and metric {metric}, found {held}")


def _bank(entry: Any, path: Path) -> NoiseBank:
    try:
        return NoiseBank(
            source=str(entry["source"]),
            stage=str(entry["stage"]),
            metric=str(entry["metric"]),
            batches=_batches(entry["batches"]),
            effects=tuple(float(one) for one in entry["effects"]),
            standard_errors=tuple(float(one) for one in entry["standard_errors"]),
            components=None if entry.get("components") is None else VarianceComponents(**entry["components"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(f"{path}: expected a whole bank, found one with a fault at {error}") from error


def _batches(entries: Any) -> tuple[tuple[float, ...], ...]:
    batches = tuple(tuple(float(one) for one in batch) for batch in entries)
    if not batches or any(
        len(batch) < 2 or not all(0 < one < math.inf for one in batch) for batch in batches
    ):
        raise ValueError("batches, which need two rates above zero or more each")
    return batches
