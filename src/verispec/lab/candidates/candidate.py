"""A candidate as it is described in TOML: what it changes, why, and the experiment that will judge it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.candidates.source_patch import SWITCH, SourcePatch, parse_source_patch
from verispec.lab.experiment.spec import Experiment, parse_experiment, read_experiment
from verispec.lab.ledger.objects import canonical_json
from verispec.lab.settings import as_text_table, as_texts, table

CONFIGURATION, ARTIFACT, PATCH = "configuration", "artifact", "patch"
ARTIFACTS = ("model", "draft", "template", "binary")
OWN = ("source", "switch", "candidate", "target", "control", "reference")
COPY = "{copy}"
"""Stands, in targets, for the folder of the built copy that an arm runs from."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """``settings`` are the experiment's (suite, stages, decision ...); ``control``, ``changed`` and ``reference`` are
    whole targets as tables. ``kind`` is configuration, artifact or patch; a patch has a ``source``."""

    name: str
    intent: str
    kind: str
    settings: Mapping[str, Any]
    control: Mapping[str, Any]
    changed: Mapping[str, Any]
    reference: Mapping[str, Any] | None
    source: SourcePatch | None
    where: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what is tried: the control, the change, and the source; not how it is measured."""
        source = (
            None
            if self.source is None
            else [self.source.base, self.source.digest, self.source.recipe.record()]
        )
        return hashlib.sha256(canonical_json([self.control, self.changed, source])).hexdigest()

    def experiment(self, patched: Path | None, unpatched: Path | None, home: Path, notes: str) -> Experiment:
        """The experiment on the built copies: the candidate runs from ``patched``, the control from ``unpatched`` or,
        behind its switch, from the same copy."""
        base = unpatched or patched
        content = {
            **self.settings,
            "name": self.name,
            "intent": self.intent,
            "notes": notes,
            "control": _filled(self.control, base),
            "candidate": [{**_filled(self.changed, patched), "name": self.name}],
        }
        if self.reference is not None:
            content["reference"] = _filled(self.reference, base)
        return parse_experiment(content, self.where, home)


def load_candidate(path: Path) -> Candidate:
    """The candidate that a TOML file describes. OptionError for what is malformed, or changes nothing."""
    return parse_candidate(read_experiment(path), path.parent, str(path))


def parse_candidate(content: Mapping[str, Any], folder: Path, where: str) -> Candidate:
    """From a file's content; paths in it are relative to ``folder``."""
    settings = {name: value for name, value in content.items() if name not in (*OWN, "name", "intent")}
    if not content.get("intent"):
        raise OptionError(f"{where}: intent: expected a sentence that says why it might help, found none")
    source = None
    if "source" in content:
        source = parse_source_patch(table(content, "source", where), folder, f"{where}: source")
    shared, control = table(content, "target", where), table(content, "control", where)
    control = {**shared, **control}
    change = table(content, "candidate", where)
    switch = table(content, "switch", where)
    _check(source, change, switch, where)
    changed = {**(control if source or switch else shared), **change}
    changed |= _switched(changed, switch)
    same = _without_name(changed) == _without_name(control)
    if same and (source is None or source.control == SWITCH):
        raise OptionError(
            f"{where}: expected a candidate that differs from its control, found the same settings"
        )
    reference = table(content, "reference", where) if "reference" in content else None
    return Candidate(
        name=str(content["name"]),
        intent=str(content["intent"]),
        kind=PATCH if source else ARTIFACT if any(name in change for name in ARTIFACTS) else CONFIGURATION,
        settings=settings,
        control=_without_name(control),
        changed=_without_name(changed),
        reference=None if reference is None else _without_name({**shared, **reference}),
        source=source,
        where=where,
    )


def _check(
    source: SourcePatch | None, change: Mapping[str, Any], switch: Mapping[str, Any], where: str
) -> None:
    unknown = sorted(set(switch) - {"arguments", "environment"})
    if unknown:
        raise OptionError(f"{where}: switch: expected only arguments, environment, found {unknown[0]!r}")
    if source is not None and source.control == SWITCH and not any(switch.values()):
        raise OptionError(
            f"{where}: switch: expected what turns the patch on, found nothing: control and candidate would be one"
        )
    if source is None and not change and not any(switch.values()):
        raise OptionError(
            f"{where}: expected [candidate], [switch] or [source], found none: nothing would change"
        )


def _switched(target: Mapping[str, Any], switch: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments and environment of a target with what a switch adds to them."""
    added: dict[str, Any] = {}
    if switch.get("arguments"):
        turned = as_texts(switch["arguments"], "switch: arguments")
        added["arguments"] = [*as_texts(target.get("arguments", ()), "arguments"), *turned]
    if switch.get("environment"):
        turned_on = as_text_table(switch["environment"], "switch: environment")
        added["environment"] = {**as_text_table(target.get("environment", {}), "environment"), **turned_on}
    return added


def _without_name(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != "name"}


def _filled(table: Mapping[str, Any], copy: Path | None) -> dict[str, Any]:
    """A target that runs from ``copy``; its identity then holds the base commit and the patch's digest."""
    if copy is None:
        return dict(table)
    filled = {name: _fill(value, str(copy)) for name, value in table.items()}
    return {"source": str(copy), **filled}


def _fill(value: Any, copy: str) -> Any:
    if isinstance(value, str):
        return value.replace(COPY, copy)
    if isinstance(value, Mapping):
        return {name: _fill(one, copy) for name, one in value.items()}
    if isinstance(value, list):
        return [_fill(one, copy) for one in value]
    return value
