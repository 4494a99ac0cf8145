"""Several replicas behind one address are one server: the same answers, errors and limits, whichever replica answers;
and one that dies takes along what it was writing and nothing else."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from local_replicas import LocalFleet, LocalReplica, local_fleet
from local_servers import post, wait_until
from verispec.engine.model import Model
from verispec.errors import BackendError
from verispec.serving.replicas.fleet import Fleet
from verispec.serving.replicas.prefix_key import Wanted
from verispec.serving.replicas.start import all_up
from verispec.serving.settings import ServerSettings
from whole_server import whole_server

STORY = "Once upon a time there was a king who had three daughters. " * 8
OTHER = "The following is a list of animals that live in the sea: a whale. " * 8
LONG = {"temperature": 0, "ignore_eos": True, "max_tokens": 700, "stream": True}


@pytest.fixture(scope="module")
def fleet(smollm2_path: Path) -> Iterator[LocalFleet]:
    with local_fleet(alias=("smollm2",)) as fleet:
        yield fleet


@pytest.fixture(autouse=True)
def idle(fleet: LocalFleet) -> None:
    wait_until(lambda: fleet.running() == [0, 0])


def complete(fleet: LocalFleet, prompt: Any, **more: Any) -> httpx.Response:
    with fleet.client() as client:
        return client.post("/v1/completions", json={"model": "smollm2", "prompt": prompt, **more})


def cached(response: httpx.Response) -> int:
    return int(response.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_every_replica_gives_the_answer_of_the_model_alone(fleet: LocalFleet, smollm2: Model) -> None:
    alone = smollm2.generate("The sea is", max_tokens=24, seed=5, temperature=0.9)
    before = [one.answered for one in fleet.replicas]
    request = {"max_tokens": 24, "seed": 5, "temperature": 0.9, "logprobs": 2}
    answers = [complete(fleet, "The sea is", **request).json()["choices"] for _ in range(4)]
    assert [one.answered - earlier for one, earlier in zip(fleet.replicas, before, strict=True)] == [2, 2]
    assert [choices[0]["text"] for choices in answers] == [alone.text] * 4
    assert all(choices == answers[0] for choices in answers)


def test_streams_pass_through_event_by_event(fleet: LocalFleet) -> None:
    whole = complete(fleet, "The sea is", max_tokens=12, temperature=0, seed=1).json()
    body = {"model": "smollm2", "prompt": "The sea is", "max_tokens": 12, "temperature": 0, "stream": True}
    with fleet.client() as client, client.stream("POST", "/v1/completions", json=body) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    text = "".join(choice["text"] for line in lines[:-1] for choice in json.loads(line)["choices"])
    assert text == whole["choices"][0]["text"]
    assert len(lines) > 4


def test_refusals_are_those_of_a_single_server(fleet: LocalFleet, smollm2: Model) -> None:
    bodies: list[dict[str, Any]] = [
        {"json": {"model": "smollm2", "prompt": "a", "temperature": 9}},
        {"json": {"model": "none", "prompt": "a"}},
        {"json": {"model": "smollm2", "prompt": "a " * 3000}},
        {"json": {"model": "smollm2", "prompt": "a", "suffix": "b"}},
        {"content": b"{", "headers": {"content-type": "application/json"}},
        {"content": b"\xff", "headers": {"content-type": "application/json"}},
        {"content": b"{}"},
    ]
    gets = [
        "/",
        "/v1/models",
        "/v1/models/none",
        "/nowhere",
        "/v1/completions",
        "/v1/receipts/none",
        "/openapi.json",
    ]
    with (
        whole_server(smollm2, alias=("smollm2",)) as single,
        single.client() as theirs,
        fleet.client() as ours,
    ):
        for body in bodies:
            one, other = (client.post("/v1/completions", **body) for client in (theirs, ours))
            assert (other.status_code, other.content) == (one.status_code, one.content), body
            assert one.status_code >= 400
        for path in gets:
            one, other = theirs.get(path), ours.get(path)
            assert other.status_code == one.status_code, path
            assert _constant(other) == _constant(one), path
            assert _names(other) == _names(one)
        assert ours.post("/health").status_code == theirs.post("/health").status_code == 405


def _constant(response: httpx.Response) -> bytes:
    return b"" if b'"created"' in response.content else response.content


def _names(response: httpx.Response) -> set[str]:
    return set(response.headers.keys())


def test_one_prefix_finds_its_replica_again_and_another_goes_elsewhere(fleet: LocalFleet) -> None:
    before = fleet.metric("prefix_cache_hits_total")
    first = complete(fleet, STORY + "A", max_tokens=1)
    other = complete(fleet, OTHER + "A", max_tokens=1)
    assert cached(first) == cached(other) == 0
    for question in ("B", "C", "D"):
        assert cached(complete(fleet, STORY + question, max_tokens=1)) > 64
        assert cached(complete(fleet, OTHER + question, max_tokens=1)) > 64
    grown = {key: value - before[key] for key, value in fleet.metric("prefix_cache_hits_total").items()}
    assert set(grown) == {'{replica="0"}', '{replica="1"}'}
    assert min(grown.values()) > 3 * 64


def test_a_full_replica_is_passed_over(fleet: LocalFleet) -> None:
    prompt = "A full house. " * 20
    complete(fleet, prompt, max_tokens=1)
    before = [one.answered for one in fleet.replicas]
    with held(fleet, prompt), held(fleet, prompt):
        wait_until(lambda: sorted(fleet.running()) == [0, 2])
        home = fleet.running().index(2)
        assert complete(fleet, prompt, max_tokens=1).status_code == 200
    grown = [one.answered - earlier for one, earlier in zip(fleet.replicas, before, strict=True)]
    assert (grown[home], grown[1 - home]) == (2, 1)


def test_a_client_that_leaves_is_hung_up_on_in_its_replica(fleet: LocalFleet) -> None:
    for stream in (True, False):
        with held(fleet, "one two", stream=stream):
            wait_until(lambda: sum(fleet.running()) == 1)
        wait_until(lambda: sum(fleet.running()) == 0)
    reasons = fleet.metric("finished_requests_total")
    assert sum(value for key, value in reasons.items() if 'reason="cancelled"' in key) >= 2
    assert all(load.answers == 0 for load in fleet.fleet.balance.loads.values())


def test_receipts_are_found_wherever_they_were_made_by_their_caller_alone(smollm2_path: Path) -> None:
    keys = ("first-key-1", "second-key-2")
    with (
        local_fleet(keys, alias=("smollm2",)) as guarded,
        guarded.client(keys[0]) as owner,
        guarded.client(keys[1]) as other,
        guarded.client() as stranger,
    ):
        body = {"model": "smollm2", "prompt": "a", "max_tokens": 2, "receipt": True}
        made = [owner.post("/v1/completions", json=body).json()["choices"][0]["receipt"] for _ in "12"]
        assert [one.answered for one in guarded.replicas] == [1, 1]
        for receipt in made:
            assert owner.get(receipt["url"]).json()["sha256"] == receipt["sha256"]
            assert other.get(receipt["url"]).json()["error"]["code"] == "receipt_not_found"
            assert stranger.get(receipt["url"]).status_code == 401
        assert stranger.get("/health").json() == {"status": "ok"}
        assert len(owner.get("/health").json()["replicas"]) == 2
        assert stranger.post("/v1/completions", json=body).status_code == 401


def test_what_no_replica_has_room_for_is_a_429(smollm2_path: Path) -> None:
    settings = {"alias": ("smollm2",), "parallel": 1, "queue": 1}
    with local_fleet(**settings) as small, ExitStack() as waiting:
        for count in range(1, 5):
            waiting.enter_context(held(small, "one two"))
            wait_until(lambda count=count: sum(small.running()) == count)
        refused = complete(small, "three", max_tokens=1)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert int(refused.headers["retry-after"]) > 0


def test_a_shutdown_lets_every_replica_finish_and_takes_nothing_new(smollm2_path: Path) -> None:
    body = {"model": "smollm2", "prompt": "one two", **LONG, "max_tokens": 40}
    with (
        local_fleet(alias=("smollm2",)) as ending,
        ending.client() as client,
        client.stream("POST", "/v1/completions", json=body) as response,
    ):
        lines = response.iter_lines()
        next(lines)
        ending.server.handle_exit(15, None)
        wait_until(lambda: ending.server._lifecycle.draining)
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert '"finish_reason":"length"' in rest[-2]


def test_a_replica_that_dies_ends_what_it_wrote_and_the_rest_goes_elsewhere(fleet: LocalFleet) -> None:
    with dying(fleet, 3) as dead:
        stream = complete(fleet, "one two", **LONG)
        assert stream.status_code == 200
        last = [line for line in stream.text.splitlines() if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "replica_lost"
        assert dead() == 1
        answers = [complete(fleet, "one two", max_tokens=2) for _ in range(4)]
        assert [one.status_code for one in answers] == [200] * 4
        with fleet.client() as client:
            health = client.get("/health")
        assert health.status_code == 200
        assert sorted(one["status"][:4] for one in health.json()["replicas"]) == ["lost", "ok"]
        assert sorted(fleet.metric("replica_up").values()) == [0, 1]
    wait_until(lambda: len(fleet.fleet.serving) == 2)


def test_a_replica_that_dies_before_its_answer_begins_is_an_error_with_a_time_to_try_again(
    fleet: LocalFleet,
) -> None:
    with dying(fleet, 1):
        refused = complete(fleet, "one two", max_tokens=2)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "replica_lost")
        assert refused.headers["retry-after"] == "1"
    wait_until(lambda: len(fleet.fleet.serving) == 2)


def test_a_request_that_no_replica_had_taken_is_given_to_another(fleet: LocalFleet) -> None:
    with dying(fleet, 0) as dead:
        assert complete(fleet, "one two", max_tokens=2).status_code == 200
        assert dead() == 1
    wait_until(lambda: len(fleet.fleet.serving) == 2)


def test_without_any_replica_the_server_says_so(fleet: LocalFleet) -> None:
    with dying(fleet, 0, both=True):
        refused = complete(fleet, "one two", max_tokens=2)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_replica")
        with fleet.client() as client:
            health = client.get("/health")
            assert (health.status_code, health.json()["status"]) == (503, "failed")
            assert client.get("/metrics").status_code == 200
    wait_until(lambda: len(fleet.fleet.serving) == 2)


def test_a_model_that_no_replica_can_serve_ends_the_start_with_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    replica = LocalReplica(ServerSettings.of({"model": str(tmp_path / "broken.gguf"), "ray": True}))
    with pytest.raises(BackendError, match=r"broken\.gguf: .*expected"):
        asyncio.run(all_up(Fleet([replica], 1)))


@contextmanager
def held(fleet: LocalFleet, prompt: str, **more: Any) -> Iterator[None]:
    """A long request whose client waits, and leaves at the end of the block."""
    body = json.dumps({"model": "smollm2", "prompt": prompt, **LONG, **more}).encode()
    host, port = fleet.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(post("/v1/completions", body, "Content-Type: application/json\r\n"))
        yield


@contextmanager
def dying(fleet: LocalFleet, message: int, both: bool = False) -> Iterator[Callable[[], int]]:
    """The replica that is next by load, or each, dies before its ``message``-th message; after the block both live.
    Gives how many are dead."""
    other = fleet.fleet.balance.choose(Wanted(), [0, 1])
    fleet.fleet.balance.end(other, Wanted())
    for one in fleet.replicas if both else [fleet.replicas[1 - other]]:
        one.dies_at = message
    try:
        yield lambda: sum(replica.dead for replica in fleet.replicas)
    finally:
        for replica in fleet.replicas:
            replica.dead, replica.dies_at = False, None
