"""64 requests of every kind to the whole server, and their answers in one form, whole or streamed."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

MODEL = "smollm2-135m"
STRATEGIES = ("auto", "suffix", "prompt-lookup", "ngram-context")
END = "2"  # the model's end token, which few answers of this length would come to by themselves
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
STORY = "Once upon a time there was a keeper of a light. The keeper lit the lamp, and the lamp lit the sea. "
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
OLD = {**PERSON, "properties": {"old": {"type": "boolean"}}, "required": ["old"]}
TOOL = {"type": "function", "function": {"name": "find", "parameters": OLD}}
TEXT_PROMPTS: tuple[Any, ...] = (
    "The capital of France is",
    STORY + STORY + "The keeper",
    "one two three four five, one two three four five, one two three",
    "def area(width, height):\n    return width * height\n\n\ndef area(width",
    "Größe: 12 µm; naïve café — 数字、文字。",
    [504, 3575, 282, 4649, 314],
    ["Red, green and", STORY + "The lamp"],
)
CHAT_PROMPTS = (
    [{"role": "user", "content": "Name three colours."}],
    [{"role": "user", "content": STORY + "Repeat the first sentence."}],
    [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "Which is larger, the sun or the moon?"},
    ],
)


@dataclass(frozen=True)
class Asked:
    path: str
    body: Mapping[str, Any]
    stream: bool
    spec_mode: str


@dataclass
class Answer:
    """``choices`` is all that must not depend on company; ``cached`` and ``accepted`` are tokens."""

    choices: list[dict[str, Any]]
    prompt_tokens: int
    completion_tokens: int
    cached: int = field(compare=False)
    accepted: int = field(compare=False)


def mixed_requests(count: int = 64) -> list[Asked]:
    """Requests that differ in everything a client can ask for; each has a seed, so that it has one answer."""
    draws = random.Random(7)
    requests = []
    for number in range(count):
        path = CHAT if number % 2 else TEXT
        body: dict[str, Any] = {
            "seed": number,
            "max_tokens": draws.choice((1, 3, 8, 12)),
            "ignore_eos": False,
        }
        body["temperature"] = draws.choice((0, 0, 0.7, 1.1))
        body |= draws.choice(({}, {}, {"top_p": 0.9}, {"min_p": 0.05, "top_k": 50}))
        body |= draws.choice(({}, {}, {"frequency_penalty": 0.5}, {"logit_bias": {"28": -100, END: 12}}))
        body |= draws.choice(({}, {}, {"stop": ["e", "two"]}, {"stop": ", "}))
        body |= draws.choice(({}, {}, {"n": 2}))
        logprobs = draws.choice((None, 0, 3))
        if path == CHAT:
            body["messages"] = draws.choice(CHAT_PROMPTS)
            body |= {} if logprobs is None else {"logprobs": True, "top_logprobs": logprobs}
            body |= _form(number // 2)
        else:
            body["prompt"] = draws.choice(TEXT_PROMPTS)
            body |= {} if logprobs is None else {"logprobs": logprobs}
            body |= {"echo": True} if number % 8 == 2 else {}
            body |= {"grammar": 'start: " "? /[a-z]{2,9}/'} if number % 8 == 4 else {}
        stream = draws.random() < 0.5 and not (body.get("echo") and logprobs is not None)
        requests.append(Asked(path, body, stream, draws.choice(STRATEGIES)))
    return requests


def _form(number: int) -> dict[str, Any]:
    """What a chat answer must look like: mostly nothing, else JSON, a schema or a call."""
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    long = {"max_tokens": 24, "stop": None}
    forms: tuple[dict[str, Any], ...] = (
        {},
        {"response_format": schema, **long},
        {"response_format": {"type": "json_object"}, **long},
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False, **long, "max_tokens": 40},
        {"tools": [TOOL]},
        {},
        {},
        {},
    )
    return forms[number % len(forms)]


def ask_all(url: str, requests: Sequence[Asked], concurrency: int, **given: Any) -> list[Answer]:
    """The answers in the order of ``requests``; ``given`` goes into each of them."""
    return asyncio.run(_ask_all(url, requests, concurrency, given))


async def _ask_all(
    url: str, requests: Sequence[Asked], concurrency: int, given: Mapping[str, Any]
) -> list[Answer]:
    gate = asyncio.Semaphore(concurrency)
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(base_url=url, timeout=240, limits=limits) as client:

        async def ask(request: Asked) -> Answer:
            async with gate:
                return await _ask(client, request, given)

        return list(await asyncio.gather(*map(ask, requests)))


async def _ask(client: httpx.AsyncClient, request: Asked, given: Mapping[str, Any]) -> Answer:
    body = {"model": MODEL, "return_token_ids": True, "spec_mode": request.spec_mode, **request.body, **given}
    if request.stream and given.get("stream") is not False:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    response = await client.post(request.path, json=body)
    assert response.status_code == 200, (response.text, body)
    if "stream_options" not in body:
        return _answer(response.json()["choices"], response.json()["usage"])
    parts = response.text.split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""], response.text
    events = [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]
    return _answer(_joined(events), events[-1]["usage"])


def _joined(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The choices of a stream as they would have come whole."""
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        for part in event["choices"]:
            choice = choices.setdefault(part["index"], {"index": part["index"], "logprobs": None})
            if "delta" in part:
                message = choice.setdefault("message", {"content": "", "tool_calls": []})
                message["content"] += part["delta"].get("content") or ""
                message["tool_calls"] += part["delta"].get("tool_calls", [])
            else:
                choice["text"] = choice.get("text", "") + part["text"]
            choice["token_ids"] = choice.get("token_ids", []) + part.get("token_ids", [])
            choice |= {
                name: part[name]
                for name in ("prompt_token_ids", "finish_reason", "finish_detail")
                if name in part
            }
            for name, values in (part["logprobs"] or {}).items():
                if values is not None:
                    choice["logprobs"] = choice["logprobs"] or {}
                    choice["logprobs"][name] = choice["logprobs"].get(name, []) + values
    return [choices[index] for index in sorted(choices)]


def _answer(choices: Sequence[dict[str, Any]], usage: Mapping[str, Any]) -> Answer:
    return Answer(
        [_plain(choice) for choice in choices],
        usage["prompt_tokens"],
        usage["completion_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
        usage["completion_tokens_details"]["accepted_prediction_tokens"],
    )


def _plain(choice: dict[str, Any]) -> dict[str, Any]:
    """One choice without what is made up for each answer: the ids of calls."""
    message = choice.get("message")
    if message is not None:
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        choice = {**choice, "message": {"content": message["content"] or "", "calls": calls}}
    logprobs = {name: values for name, values in (choice["logprobs"] or {}).items() if values is not None}
    return {**choice, "logprobs": logprobs or None}
