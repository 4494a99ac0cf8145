"""Prompt suites: what a lane is timed on. They are read and hashed as those of ``verispec bench`` are."""

from __future__ import annotations

import tomllib
from pathlib import Path

from verispec.bench import suites as bench
from verispec.bench.suites import Suite
from verispec.errors import OptionError
from verispec.lab.suites.location import suite_names, suite_text

FORM = "name, version, max_tokens and prompts with id, class and text"


def load_prompts(name: str, home: Path | None = None) -> Suite:
    """The prompt suite ``name``: the lab's, the benchmark's, the user's, or a TOML file.

    Raises OptionError when there is none or it is malformed; ids and texts must be unique.
    """
    if name in bench.suite_names():
        return bench.load_suite(name)
    text = suite_text(name, ".toml", home, prompt_suite_names(home))
    try:
        return bench.parse_suite(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise OptionError(f"suite {name}: expected {FORM}, found {error!r}") from error


def prompt_suite_names(home: Path | None = None) -> list[str]:
    """Every name that ``load_prompts`` knows."""
    own = [name for name in suite_names(".toml", home) if not name.startswith("canaries")]
    return sorted({*own, *bench.suite_names()})
