"""The grammar that an answer must follow, where a request asks for one."""

from __future__ import annotations

from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.response_format import JsonObjectFormat, JsonSchemaFormat
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.text.grammar import Grammar

RENAMED = {"json_schema": "response_format.json_schema.schema", "ebnf": "grammar"}
"""What errors about a grammar call it, and where the request has it."""


def asked_grammar(request: SharedParameters) -> Grammar | None:
    """Raises GrammarError for one that cannot be used."""
    if request.grammar is not None:
        return Grammar.ebnf(request.grammar)
    asked = request.response_format if isinstance(request, ChatRequest) else None
    if isinstance(asked, JsonObjectFormat):
        return Grammar.json_object()
    if isinstance(asked, JsonSchemaFormat):
        return Grammar.json_schema(asked.json_schema.json_schema)
    return None
