"""A change of source code as a candidate: base commit, patch, and how the result is built."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.settings import as_text_table, checked, table

SWITCH, UNPATCHED = "switch", "unpatched"
FIELDS = ("repository", "base", "patch", "control", "build")
BUILD_FIELDS = ("commands", "products", "environment", "seconds")


@dataclass(frozen=True, slots=True)
class BuildRecipe:
    """``commands`` run one after the other in the copy, without a shell. ``products`` are files, relative to the copy,
    that must be there afterwards. ``seconds`` is how long all commands together may take."""

    commands: tuple[tuple[str, ...], ...] = ()
    products: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 3600.0

    def record(self) -> dict[str, Any]:
        return {
            "commands": [list(command) for command in self.commands],
            "products": list(self.products),
            "environment": dict(self.environment),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class SourcePatch:
    """``base`` is a commit of ``repository``, ``patch`` the text of a unified diff.

    ``control`` is ``switch`` when the control comes from the same build with the patch's switch off, ``unpatched`` when
    it is a build of ``base`` alone.
    """

    repository: Path
    base: str
    patch: str
    control: str = SWITCH
    recipe: BuildRecipe = field(default_factory=BuildRecipe)

    @property
    def digest(self) -> str:
        """SHA-256 of the patch's text."""
        return hashlib.sha256(self.patch.encode()).hexdigest()


def parse_source_patch(content: Mapping[str, Any], folder: Path, where: str) -> SourcePatch:
    """The ``[source]`` table of a candidate's file; paths are relative to ``folder``. OptionError when malformed."""
    _known(content, FIELDS, where)
    for name in ("repository", "base", "patch"):
        checked(content.get(name, ""), str, f"{where}: {name}")
        if not content.get(name):
            raise OptionError(f"{where}: {name}: expected one, found none")
    control = content.get("control", SWITCH)
    if control not in (SWITCH, UNPATCHED):
        raise OptionError(f"{where}: control: expected {SWITCH} or {UNPATCHED}, found {control!r}")
    patch = folder / content["patch"]
    if not patch.is_file():
        raise OptionError(f"{where}: patch: expected a file, found none at {patch}")
    return SourcePatch(
        repository=(folder / Path(content["repository"]).expanduser()).resolve(),
        base=str(content["base"]),
        patch=patch.read_text(encoding="utf-8", errors="surrogateescape"),
        control=control,
        recipe=_recipe(table(content, "build", where), f"{where}: build"),
    )


def _recipe(content: Mapping[str, Any], where: str) -> BuildRecipe:
    _known(content, BUILD_FIELDS, where)
    commands = checked(content.get("commands", ()), tuple[str | tuple[str, ...], ...], f"{where}: commands")
    return BuildRecipe(
        commands=tuple(_command(one, where) for one in commands),
        products=tuple(checked(content.get("products", ()), tuple[str, ...], f"{where}: products")),
        environment=as_text_table(content.get("environment", {}), f"{where}: environment"),
        seconds=checked(content.get("seconds", 3600.0), float, f"{where}: seconds"),
    )


def _command(given: Any, where: str) -> tuple[str, ...]:
    parts = shlex.split(given) if isinstance(given, str) else [str(part) for part in given]
    if not parts:
        raise OptionError(f"{where}: commands: expected a program with arguments, found an empty one")
    return tuple(parts)


def _known(content: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    unknown = sorted(set(content) - set(names))
    if unknown:
        raise OptionError(f"{where}: expected only {', '.join(names)}, found {unknown[0]!r}")
