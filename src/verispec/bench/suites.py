"""Suites: named, versioned sets of prompts, identified by their content."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from verispec.errors import OptionError


@dataclass(frozen=True, slots=True)
class SuitePrompt:
    """One user turn. ``category`` says what is asked, such as ``fix typos``."""

    id: str
    category: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Suite:
    """Prompts with the length their answers are cut at."""

    name: str
    version: int
    max_tokens: int
    prompts: tuple[SuitePrompt, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of everything that defines the suite: two suites with one digest ask the same."""
        content = [
            self.name,
            self.version,
            self.max_tokens,
            [(p.id, p.category, p.text) for p in self.prompts],
        ]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()

    def identity(self) -> dict[str, Any]:
        """What a result records of it."""
        return {
            "name": self.name,
            "version": self.version,
            "sha256": self.digest,
            "max_tokens": self.max_tokens,
        }


def suite_names() -> list[str]:
    """The suites that come with verispec."""
    folder = resources.files(__package__) / "suites"
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def load_suite(name: str) -> Suite:
    """A suite by its name, or from a TOML file of the same form. OptionError when there is none or it is malformed."""
    path = Path(name)
    if name in suite_names():
        text = (resources.files(__package__) / "suites" / f"{name}.toml").read_text(encoding="utf-8")
    elif path.suffix == ".toml" and path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        raise OptionError(f"suite: expected one of {', '.join(suite_names())} or a TOML file, found {name!r}")
    try:
        return parse_suite(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(
            f"suite {name}: expected name, version, max_tokens and prompts with id, class and text, found {error!r}"
        ) from error


def parse_suite(content: dict[str, Any]) -> Suite:
    """The suite that a TOML file holds. KeyError, TypeError or AttributeError for another form, OptionError for
    doubles."""
    prompts = tuple(
        SuitePrompt(str(entry["id"]), str(entry["class"]), entry["text"].strip())
        for entry in content["prompts"]
    )
    for what, values in (("id", [p.id for p in prompts]), ("text", [p.digest for p in prompts])):
        if len(set(values)) < len(values):
            raise OptionError(f"suite {content['name']}: expected every {what} once, found one twice")
    if not prompts:
        raise OptionError(f"suite {content['name']}: expected prompts, found none")
    return Suite(str(content["name"]), int(content["version"]), int(content["max_tokens"]), prompts)
