"""Large prompts and answers of one client leave the event loop, and with it everybody else, free."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from loop_time import loop_time
from protocol_server import MODEL, ProtocolServer, protocol_server
from verispec.engine.model import Model
from verispec.serving.openai.chat_shape import ChatShape
from verispec.serving.openai.completion_shape import CompletionShape
from whole_server import whole_server

WORDS = "a keeper of a light lit the lamp and the lamp lit the sea "
LONGEST_PIECE = 0.025
"""Seconds. What is written or tokenised below takes the loop several times as long when it does it itself."""


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[ProtocolServer]:
    with protocol_server(smollm2) as running:
        running.chat(max_tokens=1)  # what is made at first use is made
        yield running


def test_many_prompts_that_are_short_are_tokenised_beside_the_loop(server: ProtocolServer) -> None:
    """The last one is wrong, so that nothing but tokenising happens."""
    prompts = [f"{number} {WORDS * 60}" for number in range(48)]
    assert all(len(prompt) < 4096 for prompt in prompts)
    with loop_time(server.loop) as used:
        response = server.complete(prompt=[*prompts, "far too long " * 1000])
    assert response.json()["error"]["param"] == "prompt[48]"
    assert used.longest < LONGEST_PIECE


@pytest.mark.parametrize(
    ("path", "given", "param"),
    [
        ("/completions", {"prompt": ["a"] * 500_000}, "prompt[0]"),
        ("/completions", {"prompt": "a", "logit_bias": [[[]]] * 300_000}, "logit_bias"),
        ("/completions", {"prompt": [*range(400_000)]}, "prompt"),
        ("/chat/completions", {"messages": [{"role": "user", "content": ""}] * 60_000}, "messages"),
        ("/chat/completions", {"messages": [{"role": "user"}] * 60_000}, "messages[0].content"),
    ],
    ids=["prompts", "lists", "token ids", "messages", "faulty messages"],
)
def test_a_large_body_is_read_beside_the_loop(
    server: ProtocolServer, path: str, given: dict[str, Any], param: str
) -> None:
    with loop_time(server.loop) as used:
        response = server.post(path, {"model": MODEL, **given})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert used.longest < LONGEST_PIECE


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_large_answer_is_written_beside_the_loop(
    server: ProtocolServer, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape: type[ChatShape | CompletionShape] = ChatShape if endpoint == "chat" else CompletionShape
    written: list[tuple[str, float]] = []
    whole = shape.whole

    def watched(self: object, finished: object) -> str:
        began = time.thread_time()
        text: str = whole(self, finished)  # type: ignore[arg-type]
        written.append((threading.current_thread().name, time.thread_time() - began))
        return text

    monkeypatch.setattr(shape, "whole", watched)
    given = {"max_tokens": 300, "temperature": 0, "ignore_eos": True, "spec_mode": "off"}
    with loop_time(server.loop) as used:
        if endpoint == "chat":
            choices = server.chat(logprobs=True, top_logprobs=20, **given).json()["choices"]
            shown = [len(one["top_logprobs"]) for one in choices[0]["logprobs"]["content"]]
        else:
            prompts = [f"{number} {WORDS * 50}" for number in range(3)]
            answer = server.complete(prompt=prompts, echo=True, logprobs=20, **{**given, "max_tokens": 1})
            shown = [
                len(top or ()) for one in answer.json()["choices"] for top in one["logprobs"]["top_logprobs"]
            ]
    assert sum(shown) > 5900
    [(thread, seconds)] = written
    assert thread.startswith("asyncio_")
    assert seconds < sum(shown) * 10e-6  # well under what dictionaries and their JSON took
    assert used.longest < LONGEST_PIECE


def test_a_small_answer_is_written_at_once(server: ProtocolServer, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    whole = ChatShape.whole

    def watched(self: ChatShape, finished: object) -> str:
        threads.append(threading.current_thread().name)
        return whole(self, finished)  # type: ignore[arg-type]

    monkeypatch.setattr(ChatShape, "whole", watched)
    assert server.chat(max_tokens=2, logprobs=True, top_logprobs=3).status_code == 200
    assert not threads[0].startswith("asyncio_")


def test_what_is_written_is_json_with_every_token_as_it_is(server: ProtocolServer, smollm2: Model) -> None:
    """Tokens of half a character, of quotes and of control characters, each with its number of alternatives."""
    prompt = smollm2.encode('"\\\n\t😀 naïve \u2028 数字 \x01')
    end = next(iter(smollm2.tokenizer.eos_ids))
    response = server.complete(
        prompt=[*prompt, end, *prompt], echo=True, logprobs=3, max_tokens=1, temperature=0
    )
    logprobs = json.loads(response.content)["choices"][0]["logprobs"]
    scored = smollm2.generate([*prompt, end, *prompt], prompt_logprobs=3, max_tokens=1).prompt_logprobs
    assert scored is not None
    assert [one.logprob for one in scored] == logprobs["token_logprobs"][:-1]
    for one, name, top in zip(scored, logprobs["tokens"][:-1], logprobs["top_logprobs"][:-1], strict=True):
        data = smollm2.tokenizer.token_bytes(one.token)
        assert name == data.decode("utf-8", "ignore") or name.startswith("bytes:\\x")
        assert top is None or top[name] == one.logprob
        assert top is None or len(top) >= 3


def test_health_is_told_while_large_answers_are_made(smollm2: Model) -> None:
    prompts = [f"{number} {WORDS * 50}" for number in range(4)]
    given = {"prompt": prompts, "echo": True, "logprobs": 20, "max_tokens": 1, "model": "smollm2-135m"}
    waits: list[float] = []
    with whole_server(smollm2) as whole, whole.client() as client, whole.client() as watcher:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.post, "/v1/completions", json=given)
            while not asked.done():
                began = time.monotonic()
                assert watcher.get("/health").json()["status"] == "ok"
                waits.append(time.monotonic() - began)
        assert asked.result().status_code == 200
    assert len(waits) > 3
    assert max(waits) < 2  # generous: processes crowd the machine; the tests above count the loop's own time
