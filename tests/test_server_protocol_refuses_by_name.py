"""Every parameter of the official client is implemented or refused by name, and so is every other one."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest
from openai.resources.chat.completions import Completions as ChatCompletions
from openai.resources.completions import Completions
from openai.types.chat.chat_completion_message_param import ChatCompletionMessageParam

from verispec.drafting import options as spec
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.completion_request import CompletionRequest
from verispec.serving.openai.errors import RequestError
from verispec.serving.openai.parameters import NOT_IMPLEMENTED
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.openai.validation import parse

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
TEXT = {"model": "m", "prompt": "hello"}
OF_THE_CLIENT_ITSELF = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}


def refusal(model: type[SharedParameters], **given: Any) -> RequestError:
    base = CHAT if model is ChatRequest else TEXT
    with pytest.raises(RequestError) as raised:
        parse(model, {**base, **given})
    return raised.value


def parameters_of(create: Any) -> set[str]:
    return set(inspect.signature(create).parameters) - OF_THE_CLIENT_ITSELF


@pytest.mark.parametrize(
    ("create", "model"), [(ChatCompletions.create, ChatRequest), (Completions.create, CompletionRequest)]
)
def test_every_parameter_of_the_official_client_is_known(create: Any, model: type[SharedParameters]) -> None:
    assert parameters_of(create) <= model.model_fields.keys()


@pytest.mark.parametrize("model", [ChatRequest, CompletionRequest])
def test_every_parameter_that_is_not_implemented_is_refused_by_name(model: type[SharedParameters]) -> None:
    refused = [
        name
        for name, field in model.model_fields.items()
        if (field.description or "").startswith(NOT_IMPLEMENTED)
    ]
    assert refused
    for name in refused:
        error = refusal(model, **{name: "something else"})
        assert (error.status, error.param, error.code) == (400, name, "unsupported_parameter")
        assert error.message.startswith(f"{name}: ")
        assert NOT_IMPLEMENTED in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("audio", {"voice": "alloy", "format": "mp3"}),
        ("function_call", "auto"),
        ("functions", [{"name": "f"}]),
        ("metadata", {"a": "b"}),
        ("modalities", ["text", "audio"]),
        ("moderation", {"model": "omni-moderation-latest"}),
        ("prediction", {"type": "content", "content": "x"}),
        ("prompt_cache_options", {"mode": "explicit"}),
        ("prompt_cache_retention", "24h"),
        ("reasoning_effort", "low"),
        ("service_tier", "flex"),
        ("store", True),
        ("verbosity", "low"),
        ("web_search_options", {}),
        ("spec_suffix_corpus", "/etc/passwd"),
        ("spec_draft_model", "/etc/passwd"),
        ("tools", [{"type": "custom", "custom": {"name": "f"}}]),
        ("stream_options", {"include_obfuscation": True}),
    ],
)
def test_what_would_change_the_answer_elsewhere_is_refused(name: str, value: object) -> None:
    error = refusal(ChatRequest, **{name: value})
    assert error.status == 400
    assert (error.param or "").split(".")[0].split("[")[0] == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("functions", []),
        ("function_call", "none"),
        ("metadata", {}),
        ("modalities", ["text"]),
        ("n", 1),
        ("prompt_cache_options", {"mode": "implicit"}),
        ("prompt_cache_retention", "in_memory"),
        ("service_tier", "auto"),
        ("service_tier", "default"),
        ("store", False),
        ("stream_options", {"include_obfuscation": False}),
        ("verbosity", "medium"),
    ],
)
def test_values_that_ask_for_nothing_are_accepted(name: str, value: object) -> None:
    parse(ChatRequest, {**CHAT, name: value})


@pytest.mark.parametrize("model", [ChatRequest, CompletionRequest])
def test_null_means_absent(model: type[SharedParameters]) -> None:
    base = CHAT if model is ChatRequest else TEXT
    optional = {name: None for name in model.model_fields if name not in base}
    assert parse(model, {**base, **optional}) == parse(model, base)


def test_text_completions_have_two_of_their_own() -> None:
    parse(CompletionRequest, {**TEXT, "best_of": 1, "suffix": ""})
    assert refusal(CompletionRequest, best_of=2).param == "best_of"
    assert refusal(CompletionRequest, suffix="x").param == "suffix"


def test_an_unknown_parameter_is_named_with_what_was_meant() -> None:
    error = refusal(ChatRequest, max_tokns=5)
    assert (error.param, error.code) == ("max_tokns", "unknown_parameter")
    assert "did you mean max_tokens?" in error.message


def test_every_speculation_option_is_known_here() -> None:
    options = {option.name for option in vars(spec).values() if isinstance(option, spec.Option)}
    assert {"spec_mode", *options} == {name for name in ChatRequest.model_fields if name.startswith("spec_")}


@pytest.mark.parametrize(
    ("given", "param", "words"),
    [
        ({"temperature": "1"}, "temperature", 'expected a number, found "1"'),
        ({"temperature": True}, "temperature", "expected a number, found true"),
        ({"temperature": 3}, "temperature", "expected at most 2, found 3"),
        ({"max_tokens": 1.0}, "max_tokens", "expected an integer, found 1.0"),
        ({"n": 0}, "n", "expected at least 1, found 0"),
        ({"stop": ["a", ""]}, "stop[1]", "expected at least 1 character"),
        ({"stop": 5}, "stop", "expected a string or a list, found 5"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x", 'found "x"'),
        ({"logit_bias": {"7": 101}}, "logit_bias.7", "expected at most 100"),
        ({"top_logprobs": 21}, "top_logprobs", "expected at most 20"),
        ({"seed": 2**64}, "seed", "expected at most"),
        ({"messages": []}, "messages", "expected at least 1 entry"),
        ({"messages": [{"content": "x"}]}, "messages[0]", "expected an object with 'role'"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role", 'found "function"'),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "required"),
        ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood", "no such field"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].type",
            "expected 'text', found \"image_url\"",
        ),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "required"),
        ({"response_format": {"type": "xml"}}, "response_format.type", 'found "xml"'),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function", "required"),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "tools[0].function.name",
            "text that matches",
        ),
    ],
)
def test_a_wrong_value_is_named_by_its_path(given: dict[str, Any], param: str, words: str) -> None:
    error = refusal(ChatRequest, **given)
    assert (error.status, error.param) == (400, param)
    assert error.message.startswith(f"{param}: ")
    assert words in error.message


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ([], "prompt"),
        ([[]], "prompt[0]"),
        ([1, "a"], "prompt[1]"),
        ([[1], [-1]], "prompt[1][0]"),
        ([True], "prompt[0]"),
        ({}, "prompt"),
    ],
)
def test_a_wrong_prompt_is_named_by_its_path(prompt: object, param: str) -> None:
    assert refusal(CompletionRequest, prompt=prompt).param == param


def test_an_error_does_not_repeat_long_values() -> None:
    secret = "s" * 5000
    assert len(refusal(ChatRequest, temperature=secret).message) < 200
    assert len(refusal(ChatRequest, **{secret: 1}).message) < 200


def test_every_role_of_the_official_client_but_the_deprecated_one_is_read() -> None:
    roles = {
        value
        for message in typing.get_args(ChatCompletionMessageParam)
        for value in typing.get_args(typing.get_type_hints(message)["role"])
    }
    refused = {role for role in roles if not accepts_role(role)}
    assert refused == {"function"}


def accepts_role(role: str) -> bool:
    tool = {"tool_call_id": "c"} if role == "tool" else {}
    try:
        parse(ChatRequest, {"model": "m", "messages": [{"role": role, "content": "x", **tool}]})
    except RequestError:
        return False
    return True
