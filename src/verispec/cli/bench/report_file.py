"""The report of a bench command as a file; whether it can be written is checked before anything is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from verispec.cli.output_file import check_output


def check_report_path(output: Path | None) -> None:
    """Raises OptionError when there is a file to write and no place for it."""
    if output is not None:
        check_output("output", output)


def write_report(report: dict[str, Any], output: Path | None) -> None:
    """Writes ``report`` as JSON, when there is a file to write it to."""
    if output is not None:
        output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
