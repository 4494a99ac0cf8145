"""Slow prompts, phases and telemetry for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from verispec.cli.output import print_table
from verispec.lab.metrics.summary import INFERRED

Record = Mapping[str, Any]


def print_tail(tail: Sequence[Record], passes_inferred: bool) -> None:
    """The slowest prompts, and what makes them slow; that is a guess where the passes are inferred, and said to be."""
    print_table(
        (
            "slowest prompts",
            "class",
            "tokens/s",
            "behind",
            "drafts",
            "passes",
            "stalls",
            "longest pause",
            "cause",
        ),
        [
            (
                one["prompt"],
                one["kind"],
                f"{one['rate']:.2f}",
                f"{one['behind_percent']:.1f}%",
                _percent(one["from_drafts"]),
                _percent(one["from_passes"]),
                str(one["stalls"]),
                f"{1000 * one['longest_pause']:.0f} ms",
                one["cause"],
            )
            for one in tail
        ],
    )
    if passes_inferred:
        typer.echo(f"drafts, passes and causes: {INFERRED}")


def print_phases(phases: Record | None) -> None:
    """Where the answers' time went."""
    if phases is None:
        typer.echo("phases: the server does not tell them")
        return
    shares = ", ".join(f"{name} {100 * share:.1f}%" for name, share in phases["shares"].items())
    typer.echo(f"phases of {phases['whole_seconds']:.2f} s: {shares}")
    if phases["untold"]:
        typer.echo(f"  not told by every answer: {', '.join(phases['untold'])}")
    if phases["overlap_seconds"]:
        typer.echo(f"  the phases together took {phases['overlap_seconds']:.2f} s longer than the answers")


def print_telemetry(telemetry: Sequence[Record]) -> None:
    """What the host showed while each lane ran."""
    for one in telemetry:
        rows = [
            (name, channel["unit"], *(f"{channel[key]:.1f}" for key in ("min", "mean", "max")))
            for name, channel in one["channels"].items()
        ]
        typer.echo(f"host during lane {one['lane']}")
        if rows:
            print_table(("channel", "unit", "min", "mean", "max"), rows)
        if one["not_shown"]:
            typer.echo(f"not shown by this host: {', '.join(one['not_shown'])}")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"
