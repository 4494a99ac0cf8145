"""An answer has the form that was asked for, JSON or a grammar, whole and streamed, with any drafter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from protocol_server import ProtocolServer, protocol_server
from verispec.engine.model import Model

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 150}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}


def schema_of(schema: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2) as running:
        yield running


def text_of(response: Any) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


@pytest.mark.parametrize("mode", ["off", "suffix"])
def test_a_schema_is_followed_with_every_drafter(server: ProtocolServer, mode: str) -> None:
    given = {"response_format": SCHEMA, "seed": 9, "max_tokens": 60}
    text = text_of(server.chat(spec_mode=mode, **given))
    person = json.loads(text)
    assert person.keys() == {"name", "age"}
    assert isinstance(person["age"], int)
    assert text == text_of(server.chat(**given))


def test_a_json_object_is_one(server: ProtocolServer) -> None:
    assert isinstance(
        json.loads(text_of(server.chat(response_format={"type": "json_object"}, temperature=0))), dict
    )


def test_a_text_format_asks_for_nothing(server: ProtocolServer) -> None:
    given = {"temperature": 0, "max_tokens": 12}
    assert text_of(server.chat(response_format={"type": "text"}, **given)) == text_of(server.chat(**given))


@pytest.mark.parametrize("grammar", ['start: "yes" | "no"', 'root ::= "yes" | "no"'])
def test_a_grammar_is_followed_by_both_endpoints(server: ProtocolServer, grammar: str) -> None:
    assert text_of(server.chat(grammar=grammar)) in ("yes", "no")
    choices = server.complete(grammar=grammar, n=3, seed=1).json()["choices"]
    assert {choice["text"] for choice in choices} <= {"yes", "no"}
    ends = {(choice["finish_reason"], choice["finish_detail"]) for choice in choices}
    assert ends == {("stop", "grammar")}


def test_the_official_client_streams_json(server: ProtocolServer) -> None:
    with server.client().chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": "Describe a person."}],
        response_format=SCHEMA,
        max_tokens=60,
        stream=True,
    ) as stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert json.loads(text).keys() == {"name", "age"}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"grammar": "start: ("}, "grammar"),
        ({"grammar": "root ::= ("}, "grammar"),
        ({"response_format": schema_of({"type": "nonsense"})}, "response_format.json_schema.schema"),
        ({"response_format": schema_of({"$ref": "#/nowhere"})}, "response_format.json_schema.schema"),
        ({"response_format": schema_of(False)}, "response_format.json_schema.schema"),
    ],
)
def test_a_faulty_format_is_named(server: ProtocolServer, given: dict[str, Any], param: str) -> None:
    response = server.chat(**given)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param), response.text


def test_a_faulty_format_fails_alone(server: ProtocolServer) -> None:
    before = text_of(server.chat(temperature=0, max_tokens=8))
    assert server.chat(grammar="start: (").status_code == 400
    assert text_of(server.chat(temperature=0, max_tokens=8)) == before
