"""Where the lab keeps its ledger and the user's own suites."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

VARIABLE = "VERISPEC_LAB"


def lab_home(chosen: Path | None = None) -> Path:
    """``chosen``, or what the environment variable VERISPEC_LAB names, or the user's data folder for the lab."""
    if chosen is not None:
        return chosen
    named = os.environ.get(VARIABLE)
    return Path(named) if named else platformdirs.user_data_path("verispec") / "lab"
