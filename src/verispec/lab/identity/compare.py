"""Declared against observed: what was asked for is only a claim, and each claim is checked by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verispec.lab.identity.collect import Identity
from verispec.lab.identity.process import ObservedProcess, resolve_program
from verispec.lab.launch.server import ServerProcess
from verispec.lab.secrets import arguments_shown, shown
from verispec.lab.targets.source import look_up
from verispec.lab.targets.target import Target

VOLATILE = frozenset(
    {
        "load_at_start",
        "process",
        "target",
        "device",
        "affinity",
        "host.memory_available_bytes",
        "host.cpu_mhz",
    }
)
"""What differs between any two lanes, or is balanced by the design, and is no difference of identity."""
DRAWN_ANEW = (".pid", ".port", ".uptime_seconds", ".status", ".media_marker")
"""Ends of paths into what servers report that are new in each process; the last is llama-server's."""


def mismatches(
    target: Target, server: ServerProcess, identity: Identity, process: ObservedProcess
) -> list[str]:
    """One line for every way in which what runs is not what was declared."""
    return [
        *_binary(target, process, identity),
        *_built_from(target, process, identity),
        *_arguments(target, server, process),
        *_environment(server, process),
        *_processors(target, server, process),
        *_claims(target, identity),
    ]


def _binary(target: Target, process: ObservedProcess, identity: Identity) -> Iterator[str]:
    declared = target.declared.binary or target.binary
    wanted = resolve_program(declared)
    if wanted is None:
        yield f"binary: expected {declared}, which is no program"
    elif wanted not in _programs(process):
        yield f"binary: expected {wanted}, found {process.binary}"
    found = identity["binary"]["sha256"]
    if target.declared.binary_sha256 not in (None, found):
        yield f"binary: expected SHA-256 {target.declared.binary_sha256}, found {found}"


def _built_from(target: Target, process: ObservedProcess, identity: Identity) -> Iterator[str]:
    """A checkout is declared because its build is meant: then what runs lies in it, unless another is declared."""
    declared = target.declared
    if target.source is None or declared.binary or declared.binary_sha256:
        return
    folder = Path(target.source).expanduser().resolve()
    packages = [Path(one["path"]).resolve() for one in (identity.get("packages") or {}).values()]
    named = Path(process.arguments[0]).absolute() if process.arguments else process.program
    if not any(folder in path.parents for path in (*_programs(process), *packages, named)):
        yield f"binary: expected one built in {folder}, found {process.binary}"


def _programs(process: ObservedProcess) -> set[Path]:
    """What may be called the binary, links resolved: a script, or the program itself. An interpreter that was declared
    is told what to run by its arguments, which are compared too."""
    named = resolve_program(process.arguments[0]) if process.arguments else None
    found = [process.program, process.script, named]
    return {path.resolve() for path in found if path is not None}


def _arguments(target: Target, server: ServerProcess, process: ObservedProcess) -> Iterator[str]:
    wanted = [*server.command[1:]]
    if not _runs_of(wanted, process.arguments):
        said, found = arguments_shown(wanted), arguments_shown(process.arguments)
        missing = next((one for one in said if one not in found), " ".join(said))
        yield f"arguments: expected {missing!r} as declared, found {' '.join(found)}"


def _runs_of(wanted: Sequence[str], found: Sequence[str]) -> bool:
    """Whether ``found`` ends with ``wanted``: in that order, with nothing added."""
    return not wanted or list(found[-len(wanted) :]) == list(wanted)


def _environment(server: ServerProcess, process: ObservedProcess) -> Iterator[str]:
    for name, value in sorted(server.variables.items()):
        found = process.environment.get(name)
        if found != value:
            told = None if found is None else shown(name, found)
            yield f"environment: expected {name}={shown(name, value)}, found {told!r}"


def _processors(target: Target, server: ServerProcess, process: ObservedProcess) -> Iterator[str]:
    wanted = target.cores(server.device)
    if wanted and set(process.affinity) != set(wanted):
        yield f"affinity: expected processors {sorted(wanted)}, found {list(process.affinity)}"


def _claims(target: Target, identity: Identity) -> Iterator[str]:
    declared = target.declared
    if declared.version not in (None, identity.get("version")):
        yield f"version: expected {declared.version}, found {identity.get('version')}"
    if declared.weights_sha256 and declared.weights_sha256 not in str(identity.get("weights")):
        yield f"weights: expected SHA-256 {declared.weights_sha256}, found {identity.get('weights')}"
    commit = (identity.get("source") or {}).get("commit")
    if declared.commit and not str(commit).startswith(declared.commit):
        yield f"commit: expected {declared.commit}, found {commit}"
    if not _same_model(target.model, identity.get("model")):
        yield f"model: expected {target.model}, found {identity.get('model')}"
    for path, value in declared.options.items():
        found = look_up(identity.get("options"), path)
        if not same_value(value, found):
            yield f"options: expected {path} = {_told(path, value)}, found {_told(path, found)}"


def _told(path: str, value: Any) -> str:
    return repr(shown(path, value) if isinstance(value, str) else value)


def _same_model(declared: str, reported: Any) -> bool:
    if reported is None:
        return True  # a missing field is another rule's
    same_file = Path(str(reported)).name == Path(declared).name
    return str(reported) == declared or (same_file and "/" in str(reported))


def same_value(wanted: Any, found: Any) -> bool:
    """Whether a resolved option is what was asked for, however each writes it: "7" and 7, "on" and true, a member of a
    list."""
    if found is None:
        return False
    if isinstance(found, list):
        return any(same_value(wanted, one) for one in found)
    first, second = _plain(wanted), _plain(found)
    return first == second or (isinstance(second, str) and first in second.split(","))


def _plain(value: Any) -> Any:
    text = str(value).strip().lower()
    if text in ("true", "on", "yes", "enabled", ""):  # a flag alone switches something on
        return "true"
    if text in ("false", "off", "no", "disabled"):
        return "false"
    try:
        return float(text)
    except ValueError:
        return text


def identity_difference(first: Identity, second: Identity) -> dict[str, tuple[Any, Any]]:
    """What differs between two lanes, by path, but for what differs between any two."""
    left, right = dict(_flat(first)), dict(_flat(second))
    return {
        path: (left.get(path), right.get(path))
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path) and not _volatile(path)
    }


def _flat(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _flat(value, f"{path}.{name}" if path else str(name))
    else:
        yield path, content


def _volatile(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in VOLATILE) or path.endswith(DRAWN_ANEW)
