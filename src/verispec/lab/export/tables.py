"""Lanes and rows as flat tables: one line a lane, or one line a prompt of a lane."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verispec.errors import UnsupportedError
from verispec.lab.gate.rules import broken_names
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.metrics.rates import row_metrics
from verispec.lab.metrics.summary import SUMMARISED
from verispec.lab.secrets import arguments_shown

STATISTICS = ("median", "p10", "mean", "min", "max", "sd")
PLACE = ("lane", "experiment", "stage", "arm", "block", "order", "device")

Line = dict[str, Any]


def lane_lines(ledger: Ledger, experiment: str | None = None) -> Iterator[Line]:
    """Every lane, or those of one experiment."""
    for _, lane in ledger.records("lane"):
        if experiment in (None, lane["experiment"]):
            yield _lane_line(lane)


def row_lines(ledger: Ledger, experiment: str | None = None) -> Iterator[Line]:
    """Every prompt of every lane; rows without times have none of the metrics."""
    for _, lane in ledger.records("lane"):
        if experiment not in (None, lane["experiment"]):
            continue
        for row in ledger.rows(lane):
            fault = row["fault"]
            metrics = row_metrics(row).as_dict() if fault is None else {}
            yield {
                **{name: lane[name] for name in PLACE},
                "valid": lane["valid"],
                "prompt": row["prompt"],
                "class": row["class"],
                **metrics,
                "passes_inferred": bool(row.get("passes_inferred")),
                "finish_reason": row["finish_reason"],
                "cached_tokens": row["cached_tokens"],
                "fault": "" if fault is None else fault["name"],
                "text_sha256": row["text_sha256"],
            }


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """RFC 4180, with a heading of every column that any line has."""
    output = io.StringIO()
    writer = csv.DictWriter(output, columns(lines), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return output.getvalue()


def columns(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """All names, in the order in which they first occur."""
    return list(dict.fromkeys(name for line in lines for name in line))


def write_parquet(lines: Sequence[Mapping[str, Any]], path: Path) -> None:
    """One Parquet file, its folder with it. UnsupportedError where pyarrow is not installed."""
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UnsupportedError(
            "needs-pyarrow", "export to Parquet: pyarrow is not installed", "pip install pyarrow"
        ) from error
    names = columns(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({name: [line.get(name) for line in lines] for name in names}), path)


def _lane_line(lane: Mapping[str, Any]) -> Line:
    line: Line = {name: lane[name] for name in PLACE}
    identity = lane["identity"] or {}
    line |= {
        "valid": lane["valid"],
        "failed_rules": " ".join(broken_names(lane["gate"])),
        "engine": lane["target"]["profile"],
        "version": identity.get("version"),
        "model": lane["target"]["model"],
        "arguments": " ".join(arguments_shown(lane["target"]["arguments"])),
        "suite": lane["suite_name"],
        "max_tokens": lane["max_tokens"],
        "began": lane["began"],
    }
    for name in SUMMARISED:
        for statistic in STATISTICS:
            found = lane["summary"].get(name)
            line[f"{name}_{statistic}"] = None if found is None else found[statistic]
    line["passes_inferred"] = bool(lane["summary"].get("passes_inferred"))
    line["request_wide_rate"] = lane["summary"]["request_wide"]["rate"]
    line["output_sha256"] = lane["output_sha256"]
    return line
