"""Where verispec keeps what it fetched, derived or measured."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

VARIABLE = "VERISPEC_CACHE"


def cache_folder() -> Path:
    """The user's cache folder for verispec; the environment variable VERISPEC_CACHE names another.

    May not exist.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_cache_path("verispec")
