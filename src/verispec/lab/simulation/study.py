"""All simulations as one study: cells that are computed once, kept in one file, and taken up again after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.noise_bank import NoiseBank
from verispec.lab.simulation.false_improvements import simulate_no_effect, simulate_wrong_bank
from verispec.lab.simulation.lane_noise import (
    Noise,
    heavy_noise,
    noise_around_estimate,
    normal_noise,
    resampled_noise,
    widened_noise,
)
from verispec.lab.simulation.search_over_noise import simulate_search
from verispec.lab.simulation.true_effects import simulate_effect

FORMAT = "verispec.lab.simulation/1"
EFFECTS = (0.01, 0.02, 0.03, 0.05)
SEED = 20260630
WRONG_BY = 4
"""Lanes vary so many times as much as a wrong bank says: another host, another load, other arguments."""


@dataclass(frozen=True, slots=True)
class Study:
    """What is simulated: the noise of these banks, and how many experiments and searches of each kind."""

    banks: tuple[NoiseBank, ...]
    experiments: int
    searches: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation of a study; ``key`` names it in the file, ``parameters`` say when it has to be run again."""

    key: str
    parameters: dict[str, Any]
    run: Callable[[], dict[str, Any]]


def cells(study: Study) -> Iterator[Cell]:
    """Every simulation, for each metric's noise: with the noise unknown, with the bank's, with a bank that is wrong."""
    for place, bank in enumerate(study.banks):
        for known, plan in {"unknown": DecisionPlan(), "bank": DecisionPlan(noise=bank.noise)}.items():
            yield from _cells(study, bank, known, plan, SEED + place)
        yield from _wrong_banks(study, bank, SEED + len(study.banks) + place)


def _cells(study: Study, bank: NoiseBank, known: str, plan: DecisionPlan, seed: int) -> Iterator[Cell]:
    deviation = bank.noise.deviation
    shapes = _shapes(bank)
    if plan.noise.degrees:  # the bank's figure is an estimate, and the truth another one
        shapes = {name: noise_around_estimate(one, plan.noise.degrees) for name, one in shapes.items()}
    base = _parameters(bank, known, plan, seed)
    for shape, noise in shapes.items():
        yield Cell(
            f"no effect/{bank.metric}/{known}/{shape}",
            {**base, "shape": shape, "experiments": study.experiments},
            partial(simulate_no_effect, noise, plan, study.experiments, seed),
        )
        yield Cell(
            f"best of 20/{bank.metric}/{known}/{shape}",
            {**base, "shape": shape, "searches": study.searches},
            partial(simulate_search, noise, plan, study.searches, seed),
        )
    for effect in EFFECTS:
        yield Cell(
            f"effect {effect:.0%}/{bank.metric}/{known}/normal",
            {**base, "shape": "normal", "effect": effect, "experiments": study.experiments},
            partial(simulate_effect, shapes["normal"], deviation, effect, plan, study.experiments, seed),
        )


def _wrong_banks(study: Study, bank: NoiseBank, seed: int) -> Iterator[Cell]:
    """Lanes with so much more noise than the bank says, decided as live experiments are.

    Its draws are others than those of ``no effect``: what decides does not know how much lanes vary, so that the same
    draws, only wider, would say the same again.
    """
    plan = DecisionPlan()
    base = _parameters(bank, "wrong bank", plan, seed)
    for shape, noise in _shapes(bank).items():
        yield Cell(
            f"wrong bank/{bank.metric}/{shape}",
            {**base, "wrong_by": WRONG_BY, "shape": shape, "experiments": study.experiments},
            partial(
                simulate_wrong_bank,
                widened_noise(noise, WRONG_BY),
                bank.noise,
                plan,
                study.experiments,
                seed,
            ),
        )


def _shapes(bank: NoiseBank) -> dict[str, Noise]:
    return {
        "normal": normal_noise(bank.noise.deviation),
        "resampled": resampled_noise(bank.batches),
        "heavy-tailed": heavy_noise(bank.noise.deviation),
    }


def _parameters(bank: NoiseBank, known: str, plan: DecisionPlan, seed: int) -> dict[str, Any]:
    return {
        "metric": bank.metric,
        "noise": known,
        "lane_deviation_percent": round(100 * bank.noise.deviation, 4),
        "margin": plan.margin,
        "alpha": plan.alpha,
        "seed": seed,
    }


def run_study(study: Study, path: Path | None, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Runs the cells that ``path`` does not hold yet with the same parameters, writing it after each one."""
    wanted = list(cells(study))
    done = {} if path is None else _kept(path)
    finished: dict[str, Any] = {}
    for count, cell in enumerate(wanted):
        progress(count, len(wanted))
        kept = done.get(cell.key, {})
        result = kept["result"] if kept.get("parameters") == cell.parameters else cell.run()
        finished[cell.key] = {"parameters": cell.parameters, "result": result}
        if path is not None and kept.get("parameters") != cell.parameters:
            _write(_report(study, {**done, **finished}), path)
    progress(len(wanted), len(wanted))
    report = _report(study, finished)
    if path is not None:
        _write(report, path)
    return report


def _report(study: Study, done: dict[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, "source": study.banks[0].source, "cells": done}


def _kept(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OptionError(f"{path}: expected a study to go on with, found {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise OptionError(f"{path}: expected the format {FORMAT}, found another file")
    return dict(content["cells"])


def _write(report: dict[str, Any], path: Path) -> None:
    """In one step, so that a kill leaves the file as it was or as it becomes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, path)


def results(report: dict[str, Any], kind: str, **wanted: Any) -> Sequence[dict[str, Any]]:
    """The cells of a report whose name begins with ``kind`` and whose parameters are the ones wanted, in order."""
    return [
        cell
        for key, cell in report["cells"].items()
        if key.startswith(kind)
        and all(cell["parameters"].get(name) == value for name, value in wanted.items())
    ]
