"""The grammar of an answer that must call tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from verispec.text.grammar import JSON_FORMAT, Grammar
from verispec.text.tokenizer import Tokenizer
from verispec.text.tool_formats import LLAMA, ToolFormat

NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
SHARED = ("$defs", "definitions")


def tool_grammar(
    functions: Sequence[Mapping[str, Any]], tool_format: ToolFormat, tokenizer: Tokenizer, parallel: bool
) -> Grammar:
    """An answer of one call, or of several (``parallel``), to ``functions`` (name and parameters) and nothing else.

    A marker that is a control token of the model is that token. Raises GrammarError for parameters that are no schema.
    """
    opening, closing = (_marker(text, tokenizer) for text in (tool_format.opening, tool_format.closing))
    repeats = parallel and tool_format.parallel
    if tool_format.array:
        more = '(", " call)*' if repeats else ""
        start = f'{opening} /[ ]?/ "[" call {more} "]"'
    elif tool_format is LLAMA:
        start = "call"
    else:
        more = '("\\n" once)*' if repeats else ""
        start = f'once {more}\nonce: {opening} "\\n" call "\\n" {closing}'
    names = [f"call_{index}" for index in range(len(functions))]
    rules = [f"start: {start}", f"call: {' | '.join(names)}"]
    for name, function in zip(names, functions, strict=True):
        # Through Grammar, so that a schema is held to the same bounds wherever it stands.
        schema = Grammar.json_schema(_call_schema(function, tool_format.arguments_key))
        rules.append(f"{name}: %json {schema.text}")
    return Grammar.ebnf("\n".join(rules))


def _call_schema(function: Mapping[str, Any], arguments_key: str) -> dict[str, Any]:
    parameters = function.get("parameters")
    arguments = dict(NO_ARGUMENTS if parameters is None else parameters)
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


def _marker(text: str, tokenizer: Tokenizer) -> str:
    token = tokenizer.control_texts.get(text)
    return json.dumps(text) if token is None else f"<[{token}]>"
