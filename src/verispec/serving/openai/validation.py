"""From a JSON object to a checked request, or to an error that names the parameter and what it should have been."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from verispec.serving.openai.errors import RequestError
from verispec.serving.openai.expectations import expectation
from verispec.serving.openai.parameters import NOT_IMPLEMENTED, Parameters

AnyParameters = TypeVar("AnyParameters", bound=Parameters)
Path = tuple[str | int, ...]

MAX_SHOWN = 80
"""Characters of a wrong value, or of a name, that an error repeats."""

_KEY = "[key]"  # how pydantic marks that a name, not its value, is wrong


class _Fault(NamedTuple):
    path: Path
    kind: str
    expected: str
    found: str


def parse(model: type[AnyParameters], given: Mapping[str, Any]) -> AnyParameters:
    """The request in ``given``. Raises RequestError for the first parameter that is wrong."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise _explain(model, [_fault(given, detail) for detail in details]) from None


def _fault(given: Mapping[str, Any], detail: ErrorDetails) -> _Fault:
    """A location as a path through the request: pydantic's also holds the branches of unions it took."""
    value: Any = given
    path: list[str | int] = []
    kind, location = detail["type"], detail["loc"]
    for step in location:
        inside = isinstance(value, dict) and step in value
        if inside or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            path.append(step)
            value = value[step]
    if kind == "union_tag_invalid":
        tag = detail["ctx"]["discriminator"].strip("'")
        path.append(tag)
        value = value[tag]
    if kind == "missing":
        path.append(location[-1])
    found = path[-1] if location[-1:] == (_KEY,) else value
    return _Fault(tuple(path), kind, expectation(detail), _shown(found))


def _explain(model: type[Parameters], faults: Sequence[_Fault]) -> RequestError:
    """The error of the first parameter at fault; a parameter that nobody knows comes before all others."""
    unknown = [fault for fault in faults if len(fault.path) == 1 and fault.kind == "extra_forbidden"]
    if unknown:
        return _unknown(model, str(unknown[0].path[0]))
    first = faults[0].path[:1]
    # of the branches of a union, the one that came furthest is the one that was meant
    path = max((fault.path for fault in faults if fault.path[:1] == first), key=len)
    here = [fault for fault in faults if fault.path == path]
    name = _written(path)
    if here[0].kind == "missing":
        return RequestError(f"{name}: required, found nothing", "missing_required_parameter", param=name)
    if here[0].kind == "extra_forbidden":
        return RequestError(f"{name}: no such field", "unknown_parameter", param=name)
    expected = " or ".join(dict.fromkeys(fault.expected for fault in here))
    message = f"{name}: expected {expected}, found {here[0].found}"
    why = _why_not(model, path)
    if why is not None:
        return RequestError(f"{message}. {why}", "unsupported_parameter", param=name)
    code = "invalid_type" if all(fault.kind.endswith("_type") for fault in here) else "invalid_value"
    return RequestError(message, code, param=name)


def _unknown(model: type[Parameters], name: str) -> RequestError:
    shown = name[:MAX_SHOWN]
    close = get_close_matches(shown, list(model.model_fields), 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return RequestError(f"{shown}: no such parameter{hint}", "unknown_parameter", param=shown)


def _why_not(model: type[Parameters], path: Path) -> str | None:
    """Why the parameter at ``path`` takes no other value, where it is one that is not implemented."""
    field = model.model_fields.get(str(path[0])) if path else None
    description = (field.description or "") if field is not None else ""
    return description if description.startswith(NOT_IMPLEMENTED) else None


def _written(path: Path) -> str:
    parts = [f"[{step}]" if isinstance(step, int) else f".{step[:MAX_SHOWN]}" for step in path]
    return "".join(parts).removeprefix(".")


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)) and len(value) > 4:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value[:MAX_SHOWN] if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
