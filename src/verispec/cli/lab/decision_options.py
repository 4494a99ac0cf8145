"""The flags that settle a decision before the data is seen; shared by the commands that decide or plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MarginOption = Annotated[
    float,
    typer.Option("--margin", min=0.01, max=49.0, help="A change of less than this percent does not matter."),
]
AlphaOption = Annotated[
    float,
    typer.Option("--alpha", min=0.0001, max=0.49, help="How often one may be wrong, all looks together."),
]
MetricOption = Annotated[str, typer.Option("--metric", help="The rate of a lane: median, mean, p10 or full.")]
BankOption = Annotated[
    Path | None,
    typer.Option(
        "--bank", help="Past controls, as `lab analyse --bank` writes them; the published log's by default."
    ),
]
