"""Targets and profiles from TOML. A key that nothing reads is an error, and so is a profile that there is not."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.settings import as_text_table, as_texts, build, checked, table, tables
from verispec.lab.targets.profile import ActivationProbe, Profile, Readiness
from verispec.lab.targets.source import Source
from verispec.lab.targets.target import Declared, Target


def profile_names() -> list[str]:
    """The engines whose profiles come with verispec."""
    folder = resources.files(__package__) / "profiles"
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def load_profile(name: str) -> Profile:
    """A profile that comes with verispec, or from a TOML file. OptionError for one that is not there or malformed."""
    if name in profile_names():
        text = (resources.files(__package__) / "profiles" / f"{name}.toml").read_text(encoding="utf-8")
    elif name.endswith(".toml") and Path(name).is_file():
        text = Path(name).read_text(encoding="utf-8")
    else:
        raise OptionError(f"profile: expected one of {', '.join(profile_names())} or a file, found {name!r}")
    return parse_profile(_toml(text, f"profile {name}"), f"profile {name}")


def parse_profile(content: Mapping[str, Any], where: str) -> Profile:
    """A profile from the content of its file; ``where`` names it in errors."""
    values = dict(content)
    for name in ("version", "weights", "template", "model", "accepted_by_position"):
        if name in values:
            values[name] = _source(values[name], f"{where}: {name}")
    if "ready" in values:
        values["ready"] = build(Readiness, values["ready"], f"{where}: ready")
    for name in ("counts", "phases"):
        sources = table(values, name, where)
        values[name] = {key: _source(text, f"{where}: {name}: {key}") for key, text in sources.items()}
    reuse = checked(values.get("reuse", ()), tuple[tuple[str, ...], ...], f"{where}: reuse")
    values["reuse"] = tuple(tuple(entry) for entry in reuse)
    values["activation"] = _probes(values, where)
    for name in ("command", "fresh", "packages"):
        if name in values:
            values[name] = tuple(checked(values[name], tuple[str, ...], f"{where}: {name}"))
    profile: Profile = build(Profile, values, where)
    return profile


def load_target(path: Path, overrides: Mapping[str, Any] | None = None) -> Target:
    """The target that a TOML file describes; ``overrides`` are keys in place of the file's."""
    return parse_target({**read_target(path), **(overrides or {})}, str(path))


def read_target(path: Path) -> dict[str, Any]:
    """The content of a target's file, for ``parse_target``; its name is the file's if it has none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: expected TOML, found {error}") from error
    return {"name": path.stem, **_toml(text, str(path))}


def parse_target(content: Mapping[str, Any], where: str) -> Target:
    """A target from the content of its file, or of a table in an experiment's file."""
    values = dict(content)
    if "profile" not in values:
        raise OptionError(f"{where}: profile: expected one of {', '.join(profile_names())}, found none")
    profile = values["profile"]
    if isinstance(profile, str):
        profile = load_profile(profile)
    else:
        profile = parse_profile(table(values, "profile", where), f"{where}: profile")
    probes = _probes(values, where)
    values.pop("activation", None)
    values["profile"] = dataclasses.replace(profile, activation=(*probes, *profile.activation))
    values.setdefault("binary", profile.binary)
    values["declared"] = build(Declared, values.get("declared", {}), f"{where}: declared")
    values["environment"] = as_text_table(values.get("environment", {}), f"{where}: environment")
    values["arguments"] = as_texts(values.get("arguments", ()), f"{where}: arguments")
    if "affinity" in values:
        values["affinity"] = tuple(checked(values["affinity"], tuple[int, ...], f"{where}: affinity"))
    target: Target = build(Target, values, where)
    return target


def _probes(content: Mapping[str, Any], where: str) -> tuple[ActivationProbe, ...]:
    probes = []
    for entry in tables(content, "activation", where):
        values = dict(entry)
        if "source" in values:
            values["source"] = _source(values["source"], f"{where}: activation: source")
        counters = checked(values.get("counters", ()), tuple[str, ...], f"{where}: activation: counters")
        values["counters"] = tuple(counters)
        probe = build(ActivationProbe, values, f"{where}: activation")
        if not (probe.source or probe.counters or probe.differs or probe.waived):
            raise OptionError(
                f"{where}: activation of {probe.knob}: expected source, counters, differs or waived, found none"
            )
        probes.append(probe)
    return tuple(probes)


def _source(text: Any, where: str) -> Source:
    return Source.parse(checked(text, str, where))


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{where}: expected TOML, found {error}") from error
