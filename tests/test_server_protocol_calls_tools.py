"""Tools reach the model, its calls come back in OpenAI's shape, whole and streamed, and results go in again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from protocol_server import MODEL, ProtocolServer, protocol_server
from verispec.engine.model import Model

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


def tool(name: str, argument: str, **more: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string", "maxLength": 12}},
        "required": [argument],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


TOOLS = [tool("get_weather", "city"), tool("get_time", "zone")]
TIME = {"type": "function", "function": {"name": "get_time"}}
FORCED: list[Any] = [
    "required",
    TIME,
    {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TIME]}},
]


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2) as running:
        yield running


def ask(server: ProtocolServer, **given: Any) -> dict[str, Any]:
    response = server.chat(**{"messages": QUESTION, "temperature": 0, "max_tokens": 80, **given})
    assert response.status_code == 200, response.text
    return dict(response.json())


@pytest.mark.parametrize("choice", FORCED, ids=["required", "named", "allowed"])
def test_a_call_that_is_asked_for_comes(server: ProtocolServer, choice: Any) -> None:
    answer = ask(server, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["content"] is None
    (call,) = answer["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["id"]
    assert call["function"]["name"] in ({"get_weather", "get_time"} if choice == "required" else {"get_time"})
    arguments = json.loads(call["function"]["arguments"])
    assert len(arguments) == 1
    assert all(isinstance(value, str) for value in arguments.values())


def test_the_official_client_reads_calls(server: ProtocolServer) -> None:
    given: Any = {"model": MODEL, "messages": QUESTION, "tools": TOOLS, "tool_choice": "required"}
    client = server.client()
    message = client.chat.completions.create(**given, temperature=0, max_tokens=80).choices[0].message
    assert message.tool_calls
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "Sunny, 21 degrees."}
    told = [*QUESTION, message, result]
    reply = client.chat.completions.create(model=MODEL, messages=told, tools=TOOLS, max_tokens=8)
    assert reply.choices[0].message.role == "assistant"


def test_a_stream_holds_the_same_calls(server: ProtocolServer) -> None:
    given = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    whole = ask(server, **given)["choices"][0]["message"]["tool_calls"][0]
    response = server.chat(messages=QUESTION, temperature=0, max_tokens=80, stream=True, **given)
    events = [json.loads(part[6:]) for part in response.text.split("\n\n")[:-2]]
    deltas = [event["choices"][0]["delta"] for event in events]
    (call,) = [one for delta in deltas for one in delta.get("tool_calls", ())]
    assert call["index"] == 0
    assert call["function"] == whole["function"]
    assert "".join(delta.get("content") or "" for delta in deltas) == ""
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_without_a_call_the_answer_is_text(server: ProtocolServer) -> None:
    given = {"tools": TOOLS, "tool_choice": "auto"}
    answer = ask(server, **given)["choices"][0]
    assert "tool_calls" not in answer["message"]
    assert answer["message"]["content"]
    response = server.chat(messages=QUESTION, temperature=0, max_tokens=80, stream=True, **given)
    events = [json.loads(part[6:]) for part in response.text.split("\n\n")[:-2]]
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
    assert text == answer["message"]["content"]


def test_tools_change_the_prompt_and_none_hides_them(server: ProtocolServer) -> None:
    def prompt_tokens(**given: Any) -> int:
        return int(ask(server, max_tokens=1, **given)["usage"]["prompt_tokens"])

    assert prompt_tokens(tools=TOOLS) > prompt_tokens()
    assert prompt_tokens(tools=TOOLS, tool_choice="none") == prompt_tokens() == prompt_tokens(tools=[])


def test_a_call_cut_off_is_length(server: ProtocolServer) -> None:
    answer = ask(server, tools=TOOLS, tool_choice="required", max_tokens=8)["choices"][0]
    assert answer["finish_reason"] == "length"
    assert "tool_calls" not in answer["message"]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tools": TOOLS * 2}, "tools[2].function.name"),
        ({"tools": [tool("f", "a", strict=True)]}, "tools[0].function.strict"),
        ({"tools": TOOLS, "response_format": {"type": "json_object"}}, "tools"),
        ({"tools": TOOLS, "grammar": 'start: "a"'}, "tools"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "no json"}}
            ]}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_named(server: ProtocolServer, given: dict[str, Any], param: str) -> None:
    response = server.chat(**{"messages": QUESTION, **given})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("argument", [{"type": "string", "pattern": "(?=ahead)"}, {"type": "nonsense"}])
def test_a_schema_that_no_call_can_follow_is_the_tools(
    server: ProtocolServer, argument: dict[str, Any]
) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {"a": argument}}}
    tools = [{"type": "function", "function": function}]
    response = server.chat(messages=QUESTION, tools=tools, tool_choice="required")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "invalid_grammar")
    assert error["param"].split("[")[0] == "tools"


def test_strict_is_kept_where_a_call_is_certain(server: ProtocolServer) -> None:
    strict = [tool("f", "a", strict=True)]
    call = ask(server, tools=strict, tool_choice="required")["choices"][0]["message"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]).keys() == {"a"}
