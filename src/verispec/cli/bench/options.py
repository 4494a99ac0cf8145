"""The flags that bench commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RowsOption = Annotated[str, typer.Option("--rows", help="Rows of a pass, comma-separated.")]
OutputOption = Annotated[Path | None, typer.Option("--output", help="Also write the report to this file.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="Draw the result as this PNG (needs matplotlib).")
]
SuiteOption = Annotated[str, typer.Option("--suite", help="copy-heavy-12, chat-12 or a TOML file.")]
StrategiesOption = Annotated[
    str, typer.Option("--strategies", help="STRATEGY[:OPTION=VALUE...], comma-separated.")
]
