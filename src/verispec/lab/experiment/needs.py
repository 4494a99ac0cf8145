"""What an experiment needs of this machine, looked up before its first lane; nothing is started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from verispec.errors import OptionError
from verispec.lab.experiment.spec import Experiment
from verispec.lab.identity.machine import gpus
from verispec.lab.identity.process import resolve_program
from verispec.lab.targets.target import Target


def missing_needs(experiment: Experiment) -> list[str]:
    """One line for every program, file, folder and device that is named and not there, with the arms that name it. A
    model that is no path is left to the server, which knows where it looks."""
    targets = dict(experiment.arms)
    if experiment.reference is not None:
        targets["reference"] = experiment.reference
    lacking: dict[str, list[str]] = {}
    for arm, target in targets.items():
        for what in _missing_of(target):
            lacking.setdefault(what, []).append(arm)
    return [
        *(f"{_named(arms, len(targets))}: {what}" for what, arms in lacking.items()),
        *(f"devices: {what}" for device in experiment.devices for what in _missing_device(device)),
    ]


def check_inherited(experiment: Experiment, environment: Mapping[str, str] | None = None) -> None:
    """Refuses an experiment in which an arm would inherit, from this process, the very variable that sets another
    apart: both would run with it, and what the arms differ by would be nothing.

    ``environment`` is that of this process unless given. OptionError with the variable and the arms.
    """
    inherited = os.environ if environment is None else environment
    for arm, target in experiment.arms.items():
        for name, value in target.environment.items():
            others = [one for one, other in experiment.arms.items() if name not in other.environment]
            if others and inherited.get(name) == value:
                raise OptionError(
                    f"experiment {experiment.name}: environment: expected {name} to be set for {arm}, "
                    f"found it in this process's own environment, from which {', '.join(others)} would inherit it"
                )


def _named(arms: Sequence[str], of: int) -> str:
    return "every arm" if len(arms) == of else ", ".join(arms)


def is_checkout(folder: Path) -> bool:
    """Whether ``folder`` lies in the working tree of a git repository, or is a bare one."""
    place = folder.resolve()
    return (place / "HEAD").is_file() or any((one / ".git").exists() for one in (place, *place.parents))


def _missing_of(target: Target) -> Iterator[str]:
    for name, program in (("binary", target.binary), ("declared: binary", target.declared.binary)):
        if program is not None and resolve_program(program) is None:
            yield f"{name}: expected a program, found none called {program}"
    sources = (target.profile.weights, target.profile.template)
    hashed = {source.path for source in sources if source is not None and source.place == "file"}
    for name in ("model", "draft", "template"):
        path = getattr(target, name)
        known = name == "draft" or name in hashed
        if name in hashed and not path:
            yield f"{name}: expected a file or a folder, whose hash is recorded, found none named"
        if path and (known or _is_path(path)) and not _path(path).exists():
            told = ", whose hash is recorded" if known else ""
            yield f"{name}: expected a file or a folder{told}, found none at {path}"
    if target.source and not is_checkout(_path(target.source)):
        yield f"source: expected a git checkout, found none at {target.source}"
    absent = sorted(set(target.affinity) - _processors())
    if absent:
        yield f"affinity: expected processors of {sorted(_processors())}, found {absent}"


def _missing_device(device: str) -> Iterator[str]:
    if device.startswith("cpu"):
        _, _, listed = device.partition("cpu:")
        absent = sorted({int(core) for core in listed.split(",") if core} - _processors())
        if absent:
            yield f"expected processors of {sorted(_processors())}, found {absent} in {device!r}"
        return
    found = gpus()
    known = {one[name] for one in found for name in ("index", "uuid") if name in one}
    unknown = [part for part in device.split(",") if part.strip() not in known] if known else []
    if not found:
        yield f"expected an accelerator that its driver's tool shows, found none for {device!r}"
    elif unknown:
        yield f"expected one of {', '.join(sorted(known))}, found {unknown[0]!r}"


def _processors() -> set[int]:
    """Those that this process may use, and so may what it starts."""
    process = psutil.Process()
    every = range(psutil.cpu_count() or 1)
    return set(process.cpu_affinity() if hasattr(process, "cpu_affinity") else every)  # not on every system


def _is_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or name.endswith(".gguf")


def _path(name: str) -> Path:
    return Path(name).expanduser()
