"""What the OpenAPI document says about request bodies and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verispec.serving.openai.parameters import Parameters

ERRORS = {
    400: "A parameter is wrong, unknown or not implemented; the error names it.",
    401: "No valid API key.",
    403: "A web page of an origin that may not call this server.",
    404: "The model is not the served one.",
    408: "The body took too long.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    429: "The queue is full; Retry-After says when to try again.",
    500: "The server failed.",
    503: "The server is shutting down, or has too many requests.",
    504: "The deadline passed.",
}
ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def request_body(parameters: type[Parameters], served: Sequence[str]) -> dict[str, Any]:
    """``openapi_extra`` for a route that reads its body itself. ``served``: the names that ``model`` may have."""
    schema = parameters.model_json_schema()
    definitions = schema.pop("$defs", {})
    schema["properties"]["model"]["enum"] = list(served)
    content = {"application/json": {"schema": _inlined(schema, definitions)}}
    return {"requestBody": {"required": True, "content": content}}


def responses(kind: str, chunk_kind: str) -> dict[int | str, dict[str, Any]]:
    """``responses`` for a route whose answers are objects of ``kind`` or streams of ``chunk_kind``."""
    errors: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {"application/json": {"schema": ERROR_SCHEMA}}}
        for status, text in ERRORS.items()
    }
    answer = {
        "description": f"An object {kind}, or with stream true events that hold {chunk_kind}.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["id", "object", "created", "model", "choices", "usage"],
                    "properties": {"object": {"const": kind}, "choices": {"type": "array"}},
                }
            },
            "text/event-stream": {"schema": {"type": "string"}},
        },
    }
    return {200: answer, **errors}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """``schema`` without references: an OpenAPI document has no place for a body's own definitions."""
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    return {name: _inlined(value, definitions) for name, value in schema.items() if name != "discriminator"}
