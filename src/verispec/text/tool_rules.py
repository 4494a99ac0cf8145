"""The grammar of an answer that must call tools: as a receipt stores it, and in the library's dialect of Lark.

Stored: ``{"opening", "closing", "form", "parallel", "calls"}``. The markers are texts, or ids of control tokens. The
calls are the schemas of whole calls, by the places of their tools in the request. Rules are only ever written here, and
every text in them is written as JSON, so that a schema is held to its own bounds and cannot reach another's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from verispec.errors import GrammarError
from verispec.text.grammar_bounds import check_schema

TAGGED, ARRAY, BARE = "tagged", "array", "bare"
TOOLS = "tools"
MAX_TOOLS_CHARACTERS = 1 << 18

_KEYS = {"opening", "closing", "form", "parallel", "calls"}
_ERROR_IN_RULE = re.compile(rf"{TOOLS}: at (\d+)\(\d+\): (?:failed to compile JSON schema: )?")


def parameters_of(place: str | int) -> str:
    """What errors call the schema of the tool in this place."""
    return f"{TOOLS}[{place}].function.parameters"


def check_tool_rules(stored: Mapping[str, Any]) -> None:
    """Raises GrammarError for what is not stored as this module says, and for schemas past the bounds."""
    markers = [stored.get("opening"), stored.get("closing")]
    calls = stored.get("calls")
    if (
        set(stored) != _KEYS
        or not all(isinstance(marker, (str, int)) for marker in markers)
        or stored["form"] not in (TAGGED, ARRAY, BARE)
        or not isinstance(stored["parallel"], bool)
        or not (isinstance(calls, Mapping) and calls)
        or not all(place.isdecimal() and place.isascii() for place in calls)
    ):
        raise GrammarError(f"{TOOLS}: expected an object with {', '.join(sorted(_KEYS))}")
    for place, schema in calls.items():
        if not isinstance(schema, Mapping):
            raise GrammarError(f"{parameters_of(place)}: expected a JSON schema")
        check_schema(schema, parameters_of(place))


def tool_rules(stored: Mapping[str, Any]) -> str:
    """The rules, one a line."""
    opening, closing = _marker(stored["opening"]), _marker(stored["closing"])
    repeats = stored["parallel"]
    if stored["form"] == ARRAY:
        more = '(", " call)*' if repeats else ""
        start = [f'start: {opening} /[ ]?/ "[" call {more} "]"']
    elif stored["form"] == BARE:
        start = ["start: call"]
    else:
        more = '("\\n" once)*' if repeats else ""
        start = [f"start: once {more}", f'once: {opening} "\\n" call "\\n" {closing}']
    names = " | ".join(f"call_{place}" for place in stored["calls"])
    calls = [f"call_{place}: %json {json.dumps(schema)}" for place, schema in stored["calls"].items()]
    return "\n".join([*start, f"call: {names}", *calls])


def of_its_tool(error: GrammarError, rules: str) -> GrammarError:
    """The error that ``rules`` led to, with the name of the tool whose schema it is about."""
    found = _ERROR_IN_RULE.match(str(error))
    if found is None:
        return error
    rule = rules.split("\n")[int(found[1]) - 1]
    place = re.match(r"call_(\d+):", rule)
    message = str(error)[found.end() :].split("\n", 1)[0]
    return GrammarError(f"{parameters_of(place[1]) if place else TOOLS}: {message}")


def _marker(marker: str | int) -> str:
    return f"<[{marker}]>" if isinstance(marker, int) else json.dumps(marker)
