"""What an answer that must call tools is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verispec.errors import GrammarError
from verispec.text.grammar import JSON_FORMAT, Grammar
from verispec.text.grammar_bounds import check_schema
from verispec.text.tokenizer import Tokenizer
from verispec.text.tool_formats import LLAMA, ToolFormat
from verispec.text.tool_rules import ARRAY, BARE, TAGGED, parameters_of

NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
SHARED = ("$defs", "definitions")
ANNOTATIONS = {"title", "description", "examples", "$comment"}
"""Keys that say nothing about what fits. Those of tools are the greater part of their schemas."""
VALUES = {"const", "enum", "required", "x-guidance"}
NAMED = {"properties", "patternProperties", "dependentSchemas", *SHARED}
"""Keys of objects whose keys are names, and may be those of annotations."""


def tool_grammar(
    functions: Mapping[int, Mapping[str, Any]], tool_format: ToolFormat, tokenizer: Tokenizer, parallel: bool
) -> Grammar:
    """An answer of one call, or of several (``parallel``), to ``functions`` (name and parameters) and nothing else.

    The functions are given by their places in the request, which errors name. A marker that is a control token of the
    model is that token. Raises GrammarError for parameters past the bounds of schemas; those that are no schema raise
    one when the grammar is compiled.
    """
    control = tokenizer.control_texts
    form = ARRAY if tool_format.array else BARE if tool_format is LLAMA else TAGGED
    calls: dict[str, Any] = {}
    for place, function in functions.items():
        check_schema(function.get("parameters"), parameters_of(place))
        calls[str(place)] = _call_schema(function, tool_format.arguments_key)
    if not calls:
        raise GrammarError("tools: expected at least one")
    return Grammar.tools(
        {
            "opening": control.get(tool_format.opening, tool_format.opening),
            "closing": control.get(tool_format.closing, tool_format.closing),
            "form": form,
            "parallel": parallel and tool_format.parallel,
            "calls": calls,
        }
    )


def _call_schema(function: Mapping[str, Any], arguments_key: str) -> dict[str, Any]:
    parameters = function.get("parameters")
    arguments: dict[str, Any] = dict(NO_ARGUMENTS if parameters is None else _without_annotations(parameters))
    shared = {
        key: arguments.pop(key) for key in SHARED if key in arguments
    }  # references begin at the whole schema
    return {
        "x-guidance": JSON_FORMAT,
        **shared,
        "type": "object",
        "properties": {"name": {"const": function["name"]}, arguments_key: {"type": "object", **arguments}},
        "required": ["name", arguments_key],
        "additionalProperties": False,
    }


def _without_annotations(schema: Any) -> Any:
    if isinstance(schema, (list, tuple)):
        return [_without_annotations(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    bare: dict[str, Any] = {}
    for key, value in schema.items():
        if key in VALUES:
            bare[key] = value
        elif key in NAMED and isinstance(value, Mapping):
            bare[key] = {name: _without_annotations(item) for name, item in value.items()}
        elif key not in ANNOTATIONS:
            bare[key] = _without_annotations(value)
    return bare
