"""The flags that settle a decision before the data is seen; shared by the commands that decide or plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verispec.cli.number_list import parse_numbers
from verispec.errors import OptionError

MarginOption = Annotated[
    float,
    typer.Option("--margin", min=0.01, max=49.0, help="A change of less than this percent does not matter."),
]
AlphaOption = Annotated[
    float,
    typer.Option("--alpha", min=0.0001, max=0.49, help="How often one may be wrong, all looks together."),
]
MetricOption = Annotated[str, typer.Option("--metric", help="The rate of a lane: median, mean, p10 or full.")]
EffectsOption = Annotated[
    str,
    typer.Option("--effects", help="Effects in percent, comma-separated: how many lanes do these need?"),
]
BankOption = Annotated[
    Path | None,
    typer.Option(
        "--bank", help="Past controls, as `lab analyse --bank` writes them; the published log's by default."
    ),
]


def effect_shares(text: str) -> list[float]:
    """What ``--effects`` says, as shares: "1,2.5" is 0.01 and 0.025. OptionError for anything else."""
    numbers = parse_numbers("--effects", text, float)
    if not 0 < min(numbers) <= max(numbers) < 1000:
        raise OptionError(f"--effects: expected percents above zero, found {text!r}")
    return [number / 100 for number in numbers]
