"""The public log of one day on four GPUs, as a table of 298 lane summaries.

It records what was asked for, in words, and not what ran. Its words are read here by rules that are written out, so
that anyone can see what was taken for a control and what for the same recipe.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from pathlib import Path

from verispec.errors import OptionError
from verispec.lab.imports.imported_log import ImportedLane, ImportedLog

METRICS = {
    "median": "median_1_100",
    "p10": "p10_1_100",
    "mean": "mean_1_100",
    "full": "full_after_ttft",
}
COLUMNS = {"experiment", "table", "lane", "gpu", "variant", "max_tokens", "note", "run", *METRICS.values()}

ALIKE = "all lanes alike"
CORE_LIST = re.compile(r",?\s*(?:core )?(?:affinity )?\d+-\d+,\d+-\d+")
STAMP = re.compile(r"20\d{6}T?\d{0,6}Z?")
ADDED = re.compile(r"control\s*(?:\+|plus)", re.IGNORECASE)
THREE_PROMPTS = re.compile(r"^code [\d.]+, SQL [\d.]+, perf [\d.]+$")
"""The note of a lane whose median is over the three slowest prompts; others name theirs among fast ones."""


def read_b70_csv(path: Path) -> ImportedLog:
    """Every row as a lane. Raises OptionError naming the row and column of what cannot be read."""
    content = path.read_bytes()
    try:
        rows = list(csv.DictReader(content.decode("utf-8").splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise OptionError(f"{path}: expected a CSV file in UTF-8, found {error}") from error
    missing = COLUMNS - set(rows[0] if rows else ())
    if missing:
        raise OptionError(
            f"{path}: expected the columns of the log, found none named {', '.join(sorted(missing))}"
        )
    lanes = []
    first_of_batch: dict[tuple[str, str], str] = {}
    for number, row in enumerate(rows, start=2):
        _check_row(row, number, path)
        key = row["experiment"], row["table"]
        recipe = first_of_batch.setdefault(key, _without_cores(row["variant"]))
        lanes.append(_lane(row, number, recipe, path))
    return ImportedLog(path.name, hashlib.sha256(content).hexdigest(), tuple(lanes))


def _check_row(row: dict[str, str], number: int, path: Path) -> None:
    if None in row or None in row.values():
        raise OptionError(f"{path}: row {number}: expected {len(COLUMNS)} columns, found another number")
    for column in ("gpu", "max_tokens"):
        if not (row[column].isascii() and row[column].isdigit()):
            raise OptionError(
                f"{path}: row {number}, column {column}: expected a number, found {row[column]!r}"
            )


def _lane(row: dict[str, str], number: int, first_recipe: str, path: Path) -> ImportedLane:
    return ImportedLane(
        lane=f"{number}:{row['run'] or row['table']}",
        experiment=row["experiment"],
        batch=row["table"],
        stamp=_stamp(row),
        arm=_arm(row["variant"], first_recipe),
        control=_is_control(row),
        device=f"gpu{row['gpu']}",
        suite="slow prompts" if THREE_PROMPTS.match(row["note"]) else "whole",
        stage=row["max_tokens"],
        metrics={name: _number(row, column, number, path) for name, column in METRICS.items() if row[column]},
        faults=_faults(row),
    )


def _arm(variant: str, first_recipe: str) -> str:
    """What ran, as far as the table says: cores pinned do not make a recipe, and "same" is the first lane's."""
    recipe = _without_cores(variant)
    if recipe == "same" or recipe.startswith("same, "):
        recipe = first_recipe + recipe.removeprefix("same")
    return recipe or ALIKE


def _without_cores(variant: str) -> str:
    return CORE_LIST.sub("", variant).strip().removesuffix(", affinity").strip()


def _is_control(row: dict[str, str]) -> bool:
    """The run's name calls it a control, and the table adds nothing to it ("control plus", "control +")."""
    return "control" in row["run"].lower() and not ADDED.search(row["variant"])


def _stamp(row: dict[str, str]) -> str:
    """The minute in which the run was started, from its name; its table where the name holds none."""
    stamps = STAMP.findall(row["run"])
    return stamps[-1][:13] if stamps else row["table"]


def _faults(row: dict[str, str]) -> tuple[str, ...]:
    """What the log itself says against the lane, though its gate had passed it."""
    faults = []
    if row["note"].startswith("invalid: "):
        faults.append(row["note"].removeprefix("invalid: "))
    if "env mismatch" in row["variant"]:
        faults.append("environment differs from what was meant")
    return tuple(faults)


def _number(row: dict[str, str], column: str, number: int, path: Path) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = -1.0
    if not (value > 0 and math.isfinite(value)):
        raise OptionError(f"{path}: row {number}, column {column}: expected a rate, found {row[column]!r}")
    return value
