"""C2 over HTTP: each of 64 mixed requests gets what it gets alone, whoever else asks, drafts or fills the cache."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_crowd import Answer, Asked, ask_all, mixed_requests
from verispec.engine.loading import load
from whole_server import WholeServer, whole_server


@pytest.fixture(scope="module")
def server(smollm2_path: Path) -> Iterator[WholeServer]:
    with (
        load(smollm2_path, ctx=512, threads=2, sequences=16) as model,
        whole_server(model, parallel=16, queue=64) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def requests() -> list[Asked]:
    return mixed_requests(64)


@pytest.fixture(scope="module")
def alone(server: WholeServer, requests: list[Asked]) -> list[Answer]:
    """One after another, whole, without speculation and without the cache."""
    return ask_all(server.url, requests, 1, spec_mode="off", cache_prompt=False, stream=False)


def test_the_requests_are_of_every_kind(requests: list[Asked], alone: list[Answer]) -> None:
    """So that what follows means something."""
    assert sum(request.stream for request in requests) > 20
    for name in ("logprobs", "stop", "grammar", "response_format", "tools", "n", "echo", "logit_bias"):
        assert sum(bool(request.body.get(name)) for request in requests) > 3, name
    choices = [choice for answer in alone for choice in answer.choices]
    details = [choice["finish_detail"] for choice in choices]
    assert {"stop_string", "end_token", "max_tokens"} <= set(details)
    assert any(choice["message"]["calls"] for choice in choices if "message" in choice)
    texts = {choice.get("text") or str(choice.get("message")) for choice in choices}
    assert len(texts) > 45


@pytest.mark.parametrize("speculates", [False, True], ids=["off", "speculating"])
@pytest.mark.parametrize("concurrency", [1, 4, 16])
def test_64_mixed_requests_answer_as_each_does_alone(
    server: WholeServer, requests: list[Asked], alone: list[Answer], concurrency: int, speculates: bool
) -> None:
    given = {"prompt_cache_key": f"{concurrency} {speculates}"} | ({} if speculates else {"spec_mode": "off"})
    order = list(range(len(requests)))
    random.Random(concurrency).shuffle(order)  # other neighbours every time
    before = shared_passes(server)
    cold, warm = (
        ask_all(server.url, [requests[place] for place in order], concurrency, **given) for _ in range(2)
    )
    for cache, found in (("cold", cold), ("warm", warm)):
        for place, answer in zip(order, found, strict=True):
            assert answer == alone[place], f"{requests[place]} with {given}, {cache} prefix cache"
    assert sum(answer.cached for answer in warm) > sum(answer.cached for answer in cold)
    assert (sum(answer.accepted for answer in cold) > 20) == speculates
    if concurrency == 16:
        passes, rode = (after - was for after, was in zip(shared_passes(server), before, strict=True))
        assert rode > 2 * passes


def shared_passes(server: WholeServer) -> tuple[float, float]:
    """Passes so far, and the requests that they served."""
    with server.client() as client:
        lines = dict(
            line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[:1] != "#"
        )
    return float(lines["verispec:passes_total"]), float(lines["verispec:batch_requests_sum"])
