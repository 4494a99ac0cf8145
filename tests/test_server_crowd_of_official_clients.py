"""What the official client offers beyond plain calls: async, parsed answers, events, tools, headers, retries."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI, pydantic_function_tool
from pydantic import BaseModel

from local_servers import post, wait_until
from verispec.engine.loading import load
from verispec.engine.model import Model
from whole_server import WholeServer, whole_server

MODEL = "smollm2-135m"
ALIAS = "gpt-4o-mini"
KEY = "a-key-of-the-test"
QUESTION: Any = [{"role": "user", "content": "Name a colour."}]
PROMPT = "The capital of France is"


class Colour(BaseModel):
    name: Literal["red", "green", "blue"]
    bright: bool


class Mix(BaseModel):
    """Mixes two colours."""

    first: Literal["red", "green"]
    second: Literal["blue", "white"]


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Iterator[Model]:
    with load(smollm2_path, ctx=512, threads=2, sequences=4) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[WholeServer]:
    with whole_server(model, (KEY,), parallel=4, alias=[ALIAS]) as running:
        yield running


@pytest.fixture
def client(server: WholeServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0, timeout=240) as official:
        yield official


def test_models_are_listed_and_found(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL, ALIAS]
    assert client.models.retrieve(ALIAS).owned_by == "verispec"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-5")


def test_a_strangers_key_is_refused(client: OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="another").models.list()


def test_many_async_calls_at_once_say_what_each_says_alone(server: WholeServer, model: Model) -> None:
    expected = [model.generate(PROMPT, max_tokens=8, temperature=1.0, seed=seed).text for seed in range(8)]
    chat = model.generate(QUESTION, max_tokens=8).text

    async def ask() -> tuple[list[str], str]:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY, timeout=240) as official:

            async def whole(seed: int) -> str:
                answer = await official.completions.create(
                    model=MODEL, prompt=PROMPT, seed=seed, max_tokens=8, extra_body={"spec_mode": "suffix"}
                )
                return answer.choices[0].text

            async def streamed() -> str:
                stream = await official.chat.completions.create(
                    model=MODEL, messages=QUESTION, temperature=0, max_tokens=8, stream=True
                )
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            *texts, said = await asyncio.gather(*map(whole, range(8)), streamed())
            return texts, said

    assert asyncio.run(ask()) == (expected, chat)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of the client about its own message
def test_answers_are_parsed_into_the_callers_types(client: OpenAI) -> None:
    answer = client.chat.completions.parse(
        model=MODEL, messages=QUESTION, response_format=Colour, max_tokens=40, seed=3
    )
    parsed = answer.choices[0].message.parsed
    assert isinstance(parsed, Colour)
    assert json.loads(answer.choices[0].message.content or "") == parsed.model_dump()
    told: list[Any] = [*QUESTION, answer.choices[0].message, *QUESTION]  # goes back as it came
    assert client.chat.completions.create(model=MODEL, messages=told, max_tokens=4).choices


def test_the_streaming_helper_tells_of_every_piece_and_parses_the_whole(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "max_tokens": 40, "seed": 3}
    with client.chat.completions.stream(response_format=Colour, **asked) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    deltas = [event.delta for event in events if event.type == "content.delta"]
    done = [event for event in events if event.type == "content.done"]
    assert len(deltas) > 1
    assert "".join(deltas) == final.choices[0].message.content == done[0].content
    assert isinstance(final.choices[0].message.parsed, Colour)
    whole = client.chat.completions.parse(response_format=Colour, **asked)
    assert whole.choices[0].message.parsed == final.choices[0].message.parsed


def test_the_streaming_helper_collects_log_probabilities_and_usage(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "max_tokens": 60, "temperature": 0}
    asked |= {"logprobs": True, "top_logprobs": 2, "stop": ["."]}
    with client.chat.completions.stream(stream_options={"include_usage": True}, **asked) as stream:
        final = stream.get_final_completion()
    whole = client.chat.completions.create(**asked)
    assert final.choices[0].logprobs == whole.choices[0].logprobs
    assert final.usage is not None
    assert whole.usage is not None
    assert final.usage.completion_tokens == whole.usage.completion_tokens


def test_a_tools_round_trip(client: OpenAI) -> None:
    """Strict tools from a type, the call parsed, its result told, an answer in text."""
    tools = [pydantic_function_tool(Mix)]
    messages: list[Any] = [{"role": "user", "content": "Mix two colours."}]
    answer = client.chat.completions.parse(
        model=MODEL,
        messages=messages,
        tools=tools,
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=80,
    )
    message = answer.choices[0].message
    assert message.tool_calls
    call = message.tool_calls[0]
    assert isinstance(call.function.parsed_arguments, Mix)
    told = [*messages, message, {"role": "tool", "tool_call_id": call.id, "content": "light blue"}]
    last = client.chat.completions.create(
        model=MODEL, messages=told, tools=tools, tool_choice="none", max_tokens=8
    )
    assert last.choices[0].message.content
    assert not last.choices[0].message.tool_calls


def test_streamed_calls_arrive_whole(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 80}
    asked |= {"tools": [pydantic_function_tool(Mix)], "tool_choice": "required", "parallel_tool_calls": False}
    with client.chat.completions.stream(**asked) as stream:
        final = stream.get_final_completion()
    whole = client.chat.completions.parse(**asked)
    assert final.choices[0].finish_reason == "tool_calls"
    for message in (final.choices[0].message, whole.choices[0].message):
        assert message.tool_calls
    (streamed,), (came,) = (
        final.choices[0].message.tool_calls or (),
        whole.choices[0].message.tool_calls or (),
    )
    assert streamed.function.arguments == came.function.arguments
    assert isinstance(streamed.function.parsed_arguments, Mix)


def test_headers_carry_the_requests_number(client: OpenAI) -> None:
    raw = client.completions.with_raw_response.create(model=MODEL, prompt=PROMPT, max_tokens=2)
    number = raw.headers["x-request-id"]
    assert number.startswith("req_")
    assert raw.parse().choices[0].text
    answer = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=2)
    assert answer._request_id not in (None, number)
    with client.completions.with_streaming_response.create(
        model=MODEL, prompt=PROMPT, max_tokens=2, stream=True
    ) as streaming:
        assert streaming.headers["content-type"].startswith("text/event-stream")
        assert list(streaming.iter_lines())[-2:] == ["data: [DONE]", ""]


def test_an_error_has_its_parameter_and_its_number(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.completions.create(model=MODEL, prompt=PROMPT, best_of=2)
    assert raised.value.param == "best_of"
    assert raised.value.code == "unsupported_parameter"
    assert raised.value.request_id


def test_our_own_parameters_go_in_extra_body_and_come_back(client: OpenAI) -> None:
    own = {"timings": True, "receipt": True, "spec_mode": "suffix", "spec_draft_max": 3}
    answer: Any = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=4, extra_body=own)
    assert answer.timings["spec_mode"] == "suffix"
    receipt: Any = client.get(answer.choices[0].receipt["url"].removeprefix("/v1"), cast_to=object)
    assert receipt


def test_leaving_a_stream_early_ends_the_answer(client: OpenAI, server: WholeServer) -> None:
    with client.completions.create(
        model=MODEL, prompt=PROMPT, max_tokens=400, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))
    with server.client(KEY) as plain:
        wait_until(lambda: plain.get("/health").json()["requests"]["running"] == 0, 60)


def test_a_full_queue_is_tried_again_after_the_time_it_says(model: Model) -> None:
    """The client waits as Retry-After tells it, and gets its answer once there is room."""
    long = {"model": MODEL, "prompt": PROMPT, "max_tokens": 400, "ignore_eos": True, "stream": True}
    body = post("/v1/completions", json.dumps(long).encode(), "Content-Type: application/json\r\n")
    with whole_server(model, parallel=1, queue=1) as server, server.client() as plain:

        def load_is(running: int, waiting: int) -> bool:
            return bool(plain.get("/health").json()["requests"] == {"running": running, "waiting": waiting})

        def refused() -> bool:
            return "verispec:rejected_requests_total 1.0" in plain.get("/metrics").text

        official = OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=20, timeout=240)
        with (
            socket.create_connection(server.address) as first,
            socket.create_connection(server.address) as next_,
        ):
            first.sendall(body)
            wait_until(lambda: load_is(1, 0), 60)
            next_.sendall(body)
            wait_until(lambda: load_is(1, 1), 60)
            with ThreadPoolExecutor(1) as thread:
                asking = thread.submit(
                    official.completions.create, model=MODEL, prompt=PROMPT, max_tokens=4, temperature=0
                )
                wait_until(refused, 60)
                for occupant in (first, next_):
                    occupant.close()
                answer = asking.result()
    assert answer.choices[0].text == model.generate(PROMPT, max_tokens=4).text
