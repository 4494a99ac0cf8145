"""Canaries: small prompts with exact answers, asked several times before a suite; all must pass.

A server that is fast because it computes something else (a broken kernel, the wrong weights, a template that is not
the model's) fails here, before anything is timed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verispec.errors import OptionError
from verispec.lab.suites.entries import Entries
from verispec.lab.suites.location import suite_names, suite_text

OWN = {"name": str, "version": int, "repeats": int, "max_tokens": int}
KEYS = {"id": str, "check": str, "text": str, "expected": str}
"""The keys of a canary suite's file, and of each of its ``[[canaries]]``."""


@dataclass(frozen=True, slots=True)
class Canary:
    """``check`` names one of ``CHECKS``; ``expected`` is written in the form that it reads."""

    id: str
    check: str
    text: str
    expected: str

    def passes(self, answer: str) -> bool:
        """Whether ``answer`` says what was expected, whatever stands around it."""
        return CHECKS[self.check](answer, self.expected)


@dataclass(frozen=True, slots=True)
class CanarySuite:
    """Canaries, each asked ``repeats`` times."""

    name: str
    version: int
    repeats: int
    max_tokens: int
    canaries: tuple[Canary, ...]

    def identity(self) -> dict[str, Any]:
        """What a lane records of it; the digest covers everything that defines it."""
        content = [self.name, self.version, self.repeats, self.max_tokens]
        content += [[one.id, one.check, one.text, one.expected] for one in self.canaries]
        digest = hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()
        return {"name": self.name, "version": self.version, "repeats": self.repeats, "sha256": digest}


def load_canaries(name: str, home: Path | None = None) -> CanarySuite:
    """The canary suite ``name``, or a TOML file of the same form.

    OptionError when there is none, or with file, line and key when it is malformed.
    """
    known = [one for one in suite_names(".toml", home) if one.startswith("canaries")]
    text, where = suite_text(name, ".toml", home, known)
    entries = Entries(text, where, OWN, "canaries", KEYS)
    for key in ("repeats", "max_tokens"):
        if entries.content[key] < 1:
            raise OptionError(f"{where}: {key}: expected at least 1, found {entries.content[key]}")
    canaries = tuple(_canary(values, entries.place(place)) for place, values in enumerate(entries.tables))
    own = entries.content
    return CanarySuite(own["name"], own["version"], own["repeats"], own["max_tokens"], canaries)


def _canary(values: Mapping[str, Any], where: str) -> Canary:
    canary = Canary(values["id"], values["check"], values["text"].strip(), values["expected"])
    if canary.check not in CHECKS:
        raise OptionError(f"{where}: check: expected one of {', '.join(CHECKS)}, found {canary.check!r}")
    if not canary.passes(canary.expected):
        raise OptionError(
            f"{where}: expected: expected an answer that passes the check {canary.check!r} itself, "
            f"found {canary.expected.strip()!r}"
        )
    return canary


def _json(answer: str, expected: str) -> bool:
    """The outermost object in the answer, by value."""
    found = answer[answer.find("{") : answer.rfind("}") + 1]
    try:
        return bool(json.loads(found) == json.loads(expected))
    except ValueError:
        return False


def _numbers(answer: str, expected: str) -> bool:
    return re.findall(r"-?\d+", answer) == re.findall(r"-?\d+", expected)


def _last_number(answer: str, expected: str) -> bool:
    numbers = re.findall(r"-?\d+(?:\.\d+)?", answer.replace(",", ""))
    return bool(numbers) and float(numbers[-1]) == float(expected)


def _text(answer: str, expected: str) -> bool:
    return answer.strip() == expected.strip()


def _python_function(answer: str, expected: str) -> bool:
    """The function in the answer means the same, whatever its docstring and annotations; nothing is run."""
    fenced = re.search(r"```(?:python)?\n(.*?)```", answer, re.DOTALL)
    found = _functions(fenced.group(1) if fenced else answer)
    wanted = _functions(expected)
    return bool(wanted) and all(found.get(name) == body for name, body in wanted.items())


def _functions(source: str) -> Mapping[str, str]:
    try:
        tree = ast.parse(source.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {node.name: _meaning(node) for node in tree.body if isinstance(node, ast.FunctionDef)}


def _meaning(function: ast.FunctionDef) -> str:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    names = [argument.arg for argument in function.args.args]
    return json.dumps([names, [ast.dump(statement) for statement in body]])


CHECKS: Mapping[str, Callable[[str, str], bool]] = {
    "json": _json,
    "numbers": _numbers,
    "last-number": _last_number,
    "text": _text,
    "python-function": _python_function,
}
