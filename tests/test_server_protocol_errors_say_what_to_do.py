"""Every error has OpenAI's shape, the status that says who can do something, and the request's own words."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from protocol_server import MODEL, PATIENCE, QUESTION, ProtocolServer, protocol_server
from verispec.engine.batching.scheduler import SchedulerLimits
from verispec.engine.model import Model
from verispec.errors import (
    BackendError,
    ContextOverflowError,
    DeadlineError,
    DrainingError,
    EngineFailedError,
    GrammarError,
    OptionError,
    QueueFullError,
    RequestCancelledError,
    UnsupportedError,
)
from verispec.serving.grammar_threads import GrammarsBusyError
from verispec.serving.openai.errors import as_request_error
from verispec.serving.state import RequestBounds

LONG = {"max_tokens": 900, "ignore_eos": True, "spec_mode": "off"}


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2, SchedulerLimits(parallel=1, queue=2)) as running:
        yield running


def error_of(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    return dict(body["error"])


@pytest.mark.parametrize(
    ("error", "status", "param", "code"),
    [
        (OptionError("top_k: expected an integer, found 'x'"), 400, "top_k", "invalid_value"),
        (OptionError("prompt: expected at least one token"), 400, "messages", "invalid_value"),
        (GrammarError("ebnf: expected a rule start, found none"), 400, "grammar", "invalid_grammar"),
        (UnsupportedError("no-such-head", "spec_mode mtp: no head"), 400, "spec_mode", "no-such-head"),
        (ContextOverflowError("prompt: too long"), 400, "messages", "context_length_exceeded"),
        (QueueFullError(5, 2.3), 429, None, "queue_full"),
        (DrainingError("the engine is shutting down"), 503, None, "shutting_down"),
        (DeadlineError("deadline: expected the answer within 1 s"), 504, "deadline", "deadline_exceeded"),
        (EngineFailedError("the engine has failed"), 503, None, "engine_failed"),
        (GrammarsBusyError("grammar: expected it ready"), 503, "grammar", "overloaded"),
        (RequestCancelledError("request: cancelled"), 499, None, "cancelled"),
        (BackendError("row 7 of /secret/path is NaN"), 500, None, "internal_error"),
        (ValueError("the prompt was: my secret"), 500, None, "internal_error"),
    ],
)
def test_each_kind_of_error_has_its_status(error: Exception, status: int, param: str, code: str) -> None:
    renamed = {"prompt": "messages", "ebnf": "grammar"}
    answer = as_request_error(error, "req_1", renamed)
    assert (answer.status, answer.code) == (status, code)
    if status != 429:
        assert answer.param == param
    if param:
        assert answer.message.startswith(f"{param}: ")


def test_what_fails_inside_is_told_by_its_number_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = as_request_error(ValueError("the prompt was: my secret"), "req_17", {})
    assert "req_17" in answer.message
    assert "req_17" in caplog.text
    assert "secret" not in answer.message + caplog.text


def test_another_model_is_not_found(server: ProtocolServer) -> None:
    error = error_of(server.chat(model="gpt-5"), 404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    with pytest.raises(openai.NotFoundError):
        server.client().chat.completions.create(model="gpt-5", messages=QUESTION)


def test_a_prompt_over_the_context_is_named(server: ProtocolServer) -> None:
    long = "word " * 1100
    error = error_of(server.chat(messages=[{"role": "user", "content": long}]), 400)
    assert (error["param"], error["code"]) == ("messages", "context_length_exceeded")
    error = error_of(server.complete(prompt=["short", long]), 400)
    assert (error["param"], error["code"]) == ("prompt[1]", "context_length_exceeded")
    assert error_of(server.complete(prompt=[[1], [10**6]]), 400)["param"] == "prompt[1]"
    assert error_of(server.complete(prompt=""), 400)["param"] == "prompt"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"spec_mode": "warp"}, "spec_mode"),
        ({"spec_mode": "off", "spec_draft_max": 3}, "spec_draft_max"),
        ({"logit_bias": {"4000000": 1}}, "logit_bias"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"grammar": "start: /a/", "response_format": {"type": "json_object"}}, "grammar"),
        ({"deadline": PATIENCE + 1}, "deadline"),
        ({"n": 65}, "n"),
    ],
)
def test_what_does_not_go_together_is_named(
    server: ProtocolServer, given: dict[str, Any], param: str
) -> None:
    assert error_of(server.chat(**given), 400)["param"] == param


def test_too_many_prompts_are_named(smollm2: Model) -> None:
    with protocol_server(smollm2, bounds=RequestBounds(answers=3)) as server:
        assert error_of(server.complete(prompt=["a", "b"], n=2), 400)["param"] == "prompt"
        assert server.complete(prompt=["a", "b", "c"], max_tokens=1).status_code == 200


def test_a_full_queue_says_when_to_try_again(server: ProtocolServer) -> None:
    response = server.chat(n=4, **LONG)
    error = error_of(response, 429)
    assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
    assert int(response.headers["retry-after"]) >= 1
    server.settle()


@pytest.mark.parametrize("stream", [True, False])
def test_a_deadline_that_passes_in_the_queue_is_a_status(server: ProtocolServer, stream: bool) -> None:
    with server.client().chat.completions.create(
        model=MODEL, messages=QUESTION, stream=True, extra_body=LONG
    ) as running:
        next(iter(running))
        response = server.chat(stream=stream, deadline=0.05)
        assert error_of(response, 504)["code"] == "deadline_exceeded"
        assert response.headers["x-should-retry"] == "false"
    server.settle()


def test_a_deadline_that_passes_in_a_stream_ends_it_with_an_error(server: ProtocolServer) -> None:
    for seconds in (0.5, 1, 2, 4):  # on a crowded machine the first token takes a while
        text = server.chat(stream=True, deadline=seconds, **LONG).text
        if text.startswith("data:"):
            break
    *chunks, last = [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n") if event]
    assert chunks
    assert last["error"]["code"] == "deadline_exceeded"
    with pytest.raises(openai.APIError, match="deadline"):
        for _ in server.client().chat.completions.create(
            model=MODEL, messages=QUESTION, stream=True, extra_body={**LONG, "deadline": seconds}
        ):
            pass
    server.settle()


@pytest.mark.parametrize("stream", [True, False])
def test_a_shutdown_ends_answers_with_a_word(smollm2: Model, stream: bool) -> None:
    with protocol_server(smollm2) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: server.chat(stream=stream, n=2, **LONG))
        begun = server.engine.statistics.generated_tokens
        while server.engine.statistics.generated_tokens < begun + 4:
            assert not asked.done()
            time.sleep(0.01)
        asyncio.run_coroutine_threadsafe(server.engine.drain(0), server.loop).result(PATIENCE)
        response = asked.result(PATIENCE)
        if stream:
            last = json.loads(response.text.split("\n\n")[-2].removeprefix("data: "))
            assert last["error"]["code"] == "shutting_down"
        else:
            assert error_of(response, 503)["code"] == "shutting_down"
        late = server.chat()
        assert error_of(late, 503)["code"] == "shutting_down"
        assert int(late.headers["retry-after"]) >= 1


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"model": "\xff"}', b"[" * 100_000])
def test_a_malformed_body_is_a_400(server: ProtocolServer, raw: bytes) -> None:
    assert error_of(server.post("/chat/completions", raw), 400)["code"] == "invalid_json"
    assert error_of(server.post("/completions", raw), 400)["code"] == "invalid_json"


def test_a_model_without_a_chat_template_refuses_messages(gemma3: Model) -> None:
    with protocol_server(gemma3) as server:
        assert error_of(server.chat(), 400)["code"] == "no-chat-template"
