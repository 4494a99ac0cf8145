"""The official client gets answers of exactly its types, and they are what the engine says alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types import Completion as TextCompletion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

from protocol_server import ALIAS, MODEL, QUESTION, ProtocolServer, protocol_server
from verispec.engine.model import Model
from verispec.engine.replay import ModelReplayer
from verispec.evidence.verify import Verdict, verify

OWN_FIELDS = {"timings", "finish_detail", "receipt", "token_ids", "prompt_token_ids", "verispec"}
PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2) as running:
        yield running


def check_shape(kind: type[BaseModel], body: dict[str, Any]) -> None:
    """``body`` is of the client's type in every field, strictly, and what else it has is ours."""
    parsed = kind.model_validate_json(json.dumps(body), strict=True)
    assert unknown_fields(parsed) <= OWN_FIELDS


def unknown_fields(value: object) -> set[str]:
    if isinstance(value, list):
        return {name for one in value for name in unknown_fields(one)}
    if not isinstance(value, BaseModel):
        return set()
    inner = {name for one in dict(value).values() for name in unknown_fields(one)}
    return inner | set(value.model_extra or {})


def events_of(text: str) -> list[dict[str, Any]]:
    lines = text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


ALL_EXTRAS = {"timings": True, "receipt": True, "return_token_ids": True, "max_tokens": 12, "n": 2, "seed": 1}


def test_chat_answers_have_the_clients_types(server: ProtocolServer) -> None:
    body = server.chat(logprobs=True, top_logprobs=2, **ALL_EXTRAS).json()
    check_shape(ChatCompletion, body)
    assert body["model"] == MODEL
    assert body["id"].startswith("chatcmpl-")
    assert [choice["index"] for choice in body["choices"]] == [0, 1]


def test_chat_chunks_have_the_clients_types(server: ProtocolServer) -> None:
    options = {"include_usage": True}
    response = server.chat(logprobs=True, stream=True, stream_options=options, **ALL_EXTRAS)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response.text)
    for event in events:
        check_shape(ChatCompletionChunk, event)
        assert event["id"] == events[0]["id"]
    assert [event["choices"] for event in events].count([]) == 1
    assert events[-1]["usage"]["completion_tokens"] == 24
    assert all(event["usage"] is None for event in events[:-1])


def test_text_answers_and_chunks_have_the_clients_types(server: ProtocolServer) -> None:
    check_shape(TextCompletion, server.complete(logprobs=2, **ALL_EXTRAS).json())
    response = server.complete(logprobs=2, stream=True, stream_options={"include_usage": True}, **ALL_EXTRAS)
    for event in events_of(response.text):
        for choice in event["choices"]:
            choice["finish_reason"] = (
                choice["finish_reason"] or "stop"
            )  # null until the end, untold by the type
        check_shape(TextCompletion, event)


def test_chat_says_what_the_engine_says_alone(server: ProtocolServer, smollm2: Model) -> None:
    alone = smollm2.generate(QUESTION, max_tokens=24, spec_mode="off")
    answer = server.client().chat.completions.create(
        model=ALIAS, messages=QUESTION, max_completion_tokens=24, temperature=0
    )
    choice = answer.choices[0]
    assert choice.message.content == alone.text
    assert choice.message.role == "assistant"
    assert choice.message.refusal is None
    assert choice.finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(alone.prompt_tokens)
    assert answer.usage.completion_tokens == len(alone.tokens) == 24


def test_absent_temperature_is_one(server: ProtocolServer, smollm2: Model) -> None:
    alone = smollm2.generate(PROMPT, max_tokens=16, temperature=1.0, seed=5)
    assert server.complete(seed=5).json()["choices"][0]["text"] == alone.text


def test_the_servers_defaults_come_before_openais(smollm2: Model) -> None:
    defaults = {"temperature": 0.0, "max_tokens": 5}
    with protocol_server(smollm2, with_defaults=lambda asked: {**defaults, **asked}) as server:
        choice = server.complete().json()["choices"][0]
        assert choice["text"] == smollm2.generate(PROMPT, max_tokens=5).text
        assert server.complete(max_tokens=2).json()["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("endpoint", ["chat", "complete"])
def test_a_stream_is_the_whole_answer_in_pieces(server: ProtocolServer, endpoint: str) -> None:
    ask = getattr(server, endpoint)
    given = {"n": 2, "seed": 11, "max_tokens": 20, "return_token_ids": True, "stop": ["e c"]}
    whole = ask(**given).json()["choices"]
    texts, tokens, reasons = {0: "", 1: ""}, {0: [], 1: []}, {}
    for event in events_of(ask(stream=True, **given).text):
        for choice in event["choices"]:
            index = choice["index"]
            texts[index] += choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
            tokens[index] += choice.get("token_ids", [])
            if choice["finish_reason"]:
                reasons[index] = choice["finish_reason"], choice["finish_detail"]
    for choice in whole:
        index = choice["index"]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        assert texts[index] == text
        assert tokens[index] == choice["token_ids"]
        assert reasons[index] == (choice["finish_reason"], choice["finish_detail"])
    assert texts[0] != texts[1]


def test_choices_are_the_engines_choices(server: ProtocolServer, smollm2: Model) -> None:
    prompts = [PROMPT, "2 + 2 ="]
    body = server.complete(prompt=prompts, n=2, seed=7, max_tokens=8).json()
    expected = [
        smollm2.generate(prompt, max_tokens=8, temperature=1.0, seed=7, choice=choice).text
        for prompt in prompts
        for choice in (0, 1)
    ]
    assert [choice["text"] for choice in body["choices"]] == expected
    prompt_tokens = sum(len(smollm2.encode(prompt)) for prompt in prompts)
    assert body["usage"]["prompt_tokens"] == prompt_tokens
    assert body["usage"]["completion_tokens"] == 32


def test_prompts_may_be_token_ids(server: ProtocolServer, smollm2: Model) -> None:
    tokens = smollm2.encode(PROMPT)
    by_text = server.complete(temperature=0).json()["choices"]
    assert server.complete(prompt=tokens, temperature=0).json()["choices"] == by_text
    assert server.complete(prompt=[tokens], temperature=0).json()["choices"] == by_text


def test_text_parts_are_one_text(server: ProtocolServer) -> None:
    parts = [{"type": "text", "text": "Name three "}, {"type": "text", "text": "colours."}]
    in_parts = server.chat(messages=[{"role": "user", "content": parts}], temperature=0, max_tokens=12).json()
    whole = server.chat(temperature=0, max_tokens=12).json()
    assert in_parts["choices"] == whole["choices"]


def test_sampling_parameters_reach_the_engine(server: ProtocolServer, smollm2: Model) -> None:
    given = {
        "temperature": 0.8,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.01,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "repetition_penalty": 1.1,
        "max_tokens": 16,
        "seed": 3,
    }
    alone = smollm2.generate(PROMPT, logit_bias={7042: -100.0}, **given)
    served = server.complete(logit_bias={"7042": -100}, **given).json()
    assert served["choices"][0]["text"] == alone.text


def test_a_negative_seed_is_one_of_64_bits(server: ProtocolServer) -> None:
    negative = server.complete(seed=-1).json()["choices"]
    assert negative == server.complete(seed=2**64 - 1).json()["choices"]


def test_a_stop_string_ends_the_answer_before_it(server: ProtocolServer, smollm2: Model) -> None:
    text = smollm2.generate(PROMPT, max_tokens=16).text
    stop = text[10:13]
    choice = server.complete(temperature=0, stop=[stop, "never said"]).json()["choices"][0]
    assert choice["text"] == text[: text.index(stop)]
    assert (choice["finish_reason"], choice["finish_detail"]) == ("stop", "stop_string")


def test_the_end_of_the_context_is_length_with_its_detail(server: ProtocolServer, smollm2: Model) -> None:
    tokens = (smollm2.encode(PROMPT) * 300)[: smollm2.backend.capabilities.context - 3]
    choice = server.complete(prompt=tokens, temperature=0, max_tokens=50, ignore_eos=True).json()["choices"][
        0
    ]
    assert (choice["finish_reason"], choice["finish_detail"]) == ("length", "context")


def test_log_probabilities_are_the_engines(server: ProtocolServer, smollm2: Model) -> None:
    alone = smollm2.generate(QUESTION, max_tokens=10, logprobs=3)
    assert alone.logprobs is not None
    answer = server.client().chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=10, temperature=0, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [entry.logprob for entry in logprobs.content] == [one.logprob for one in alone.logprobs]
    text = b"".join(bytes(entry.bytes or []) for entry in logprobs.content).decode()
    assert text == answer.choices[0].message.content
    for entry, one in zip(logprobs.content, alone.logprobs, strict=True):
        assert [top.logprob for top in entry.top_logprobs] == [logprob for _, logprob in one.alternatives]


def test_usage_counts_cached_and_predicted_tokens(server: ProtocolServer) -> None:
    prompt = "one two three four five six seven eight nine ten " * 8
    given = {"prompt": prompt, "temperature": 0, "max_tokens": 32, "timings": True, "user": "counted"}
    given |= {"spec_mode": "prompt-lookup", "spec_draft_policy": "fixed", "spec_draft_max": 7}
    first, again = server.complete(**given).json(), server.complete(**given).json()
    cold = server.complete(cache_prompt=False, **given).json()
    assert first["choices"] == again["choices"] == cold["choices"]
    details = [body["usage"]["prompt_tokens_details"]["cached_tokens"] for body in (first, again, cold)]
    assert details[0] == details[2] == 0
    assert details[1] > 0
    counted, clocks = first["usage"]["completion_tokens_details"], first["timings"]
    assert counted["accepted_prediction_tokens"] == clocks["accepted"] > 0
    assert counted["rejected_prediction_tokens"] == clocks["drafted"] - clocks["accepted"]
    assert clocks["spec_mode"] == "prompt-lookup"
    assert 0 <= clocks["queued_seconds"] <= clocks["first_token_seconds"] <= clocks["last_token_seconds"]


@pytest.mark.parametrize("other", [{"user": "b"}, {"prompt_cache_key": "b"}, {"caller": "b"}])
def test_cached_prefixes_stay_within_their_identity(server: ProtocolServer, other: dict[str, str]) -> None:
    prompt = f"Some shared words, again and again, {sorted(other)}: " * 8
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1, "user": "a"}
    headers = other if "caller" in other else {}

    def cached(more: dict[str, str], **headers: str) -> int:
        usage = server.post("/completions", {**body, **more}, **headers).json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    assert cached({}) == 0
    assert cached({}) > 0
    assert cached({} if headers else other, **headers) == 0


def test_rounds_show_what_was_drafted_when_timings_are_asked(server: ProtocolServer) -> None:
    given = {"prompt": "a b c d " * 20, "temperature": 0, "max_tokens": 24, "spec_mode": "prompt-lookup"}
    whole = server.complete(timings=True, **given).json()["timings"]
    events = events_of(server.complete(timings=True, stream=True, **given).text)
    rounds = [event["verispec"] for event in events if "verispec" in event]
    assert sum(one["drafted"] for one in rounds) == whole["drafted"]
    assert sum(one["accepted"] for one in rounds) == whole["accepted"]
    assert events[-1]["choices"] == []
    assert events[-1]["timings"]["passes"] == whole["passes"] == len(rounds)


@pytest.mark.parametrize("stream", [False, True])
def test_a_receipt_is_left_for_each_choice(server: ProtocolServer, smollm2: Model, stream: bool) -> None:
    given = {"receipt": "include-text", "n": 2, "max_tokens": 6, "stream": stream}
    response = server.complete(**given)
    bodies = events_of(response.text) if stream else [response.json()]
    left = [choice["receipt"] for body in bodies for choice in body["choices"] if "receipt" in choice]
    assert len({one["id"] for one in left}) == 2
    for one in left:
        identity, receipt = server.receipts[one["id"]]
        assert identity == "anonymous"
        assert one["sha256"] == receipt.sha256
        assert one["url"] == f"/v1/receipts/{one['id']}"
        checked = verify(receipt.to_bytes(), lambda facts: ModelReplayer(smollm2), None)
        assert checked.verdict is Verdict.VERIFIED


def test_without_being_asked_no_receipt_is_left(server: ProtocolServer) -> None:
    before = len(server.receipts)
    assert "receipt" not in server.complete(max_tokens=1).json()["choices"][0]
    assert len(server.receipts) == before
