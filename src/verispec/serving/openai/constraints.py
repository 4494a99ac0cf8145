"""The grammar that an answer must follow, where a request asks for one."""

from __future__ import annotations

from verispec.serving.grammar_threads import GrammarThreads
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.response_format import JsonObjectFormat, JsonSchemaFormat
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.text.grammar import Grammar

SCHEMA = "response_format.json_schema.schema"


def grammar_names(request: SharedParameters) -> dict[str, str]:
    """What errors about a grammar call it, and where the request has it: a tool's schema becomes part of a grammar."""
    grammar = "tools" if request.grammar is None and isinstance(request, ChatRequest) else "grammar"
    formatted = isinstance(request, ChatRequest) and isinstance(request.response_format, JsonSchemaFormat)
    return {"json_schema": SCHEMA if formatted else grammar, "ebnf": grammar, "grammar": grammar}


async def asked_grammar(request: SharedParameters, threads: GrammarThreads) -> Grammar | None:
    """Raises GrammarError for one that cannot be used."""
    if request.grammar is not None:
        return await threads.run(Grammar.ebnf, request.grammar)
    asked = request.response_format if isinstance(request, ChatRequest) else None
    if isinstance(asked, JsonObjectFormat):
        return Grammar.json_object()
    if isinstance(asked, JsonSchemaFormat):
        return await threads.run(Grammar.json_schema, asked.json_schema.json_schema)
    return None
