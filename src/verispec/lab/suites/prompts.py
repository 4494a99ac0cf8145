"""Prompt suites: what a lane is timed on. They are read and hashed as those of ``verispec bench`` are."""

from __future__ import annotations

from pathlib import Path

from verispec.bench import suites as bench
from verispec.bench.suites import Suite
from verispec.lab.suites.entries import Entries
from verispec.lab.suites.location import suite_names, suite_text

OWN = {"name": str, "version": int, "max_tokens": int}
KEYS = {"id": str, "class": str, "text": str}
"""The keys of a suite's file, and of each of its ``[[prompts]]``."""


def load_prompts(name: str, home: Path | None = None) -> Suite:
    """The prompt suite ``name``: the lab's, the benchmark's, the user's, or a TOML file.

    Raises OptionError when there is none, or with file, line and key when it is malformed.
    """
    if name in bench.suite_names():
        return bench.load_suite(name)
    entries = Entries(*suite_text(name, ".toml", home, prompt_suite_names(home)), OWN, "prompts", KEYS)
    return bench.parse_suite(entries.content)


def prompt_suite_names(home: Path | None = None) -> list[str]:
    """Every name that ``load_prompts`` knows."""
    own = [name for name in suite_names(".toml", home) if not name.startswith("canaries")]
    return sorted({*own, *bench.suite_names()})
