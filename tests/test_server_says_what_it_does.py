"""What the server says of itself is true: health, models, metrics, receipts, and every error in one shape."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from local_servers import wait_until
from verispec.engine.model import Model
from verispec.evidence.receipt import Receipt
from whole_server import WholeServer, whole_server

KEYS = ("ann-key-12345", "bob-key-12345")
COPY = "one two three one two three one two three one two"


@pytest.fixture(scope="module")
def guarded(smollm2: Model) -> Iterator[WholeServer]:
    """A server that asks for keys."""
    with whole_server(smollm2, KEYS, alias="gpt-4o", spec_mode="suffix", max_body=0.5) as server:
        yield server


@pytest.fixture
def ann(guarded: WholeServer) -> Iterator[httpx.Client]:
    with guarded.client(KEYS[0]) as client:
        yield client


def complete(client: httpx.Client, **parameters: Any) -> dict[str, Any]:
    body = {"model": "smollm2-135m", "prompt": COPY, "max_tokens": 24, "temperature": 0, **parameters}
    response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def samples(client: httpx.Client) -> dict[tuple[str, str], float]:
    """Value of every sample of /metrics by (name, labels joined)."""
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name.removeprefix("verispec:"), ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_health_tells_holders_of_a_key_everything_and_others_the_status(
    guarded: WholeServer, ann: httpx.Client, smollm2: Model
) -> None:
    with guarded.client() as stranger:
        assert stranger.get("/health").json() == {"status": "ok"}
    report = ann.get("/health").json()
    assert report["status"] == "ok"
    assert report["speculation"]["requested"] == "suffix"
    assert report["options"]["max_body"] == 0.5
    assert report["options"]["requests"] == {"spec_mode": "suffix"}
    assert report["artifacts"] == smollm2.artifacts
    assert report["build"] == smollm2.backend.identity()
    assert report["capabilities"] == json.loads(json.dumps(smollm2.capabilities()))
    assert report["memory"]["total"] > report["memory"]["weights"] > 50_000_000
    assert report["versions"]["verispec"]
    assert not any(key in json.dumps(report) for key in KEYS)


def test_models_are_the_served_one_and_its_aliases(ann: httpx.Client) -> None:
    listed = ann.get("/v1/models").json()
    assert [model["id"] for model in listed["data"]] == ["smollm2-135m", "gpt-4o"]
    assert ann.get("/v1/models/gpt-4o").json()["root"] == "smollm2-135m"
    missing = ann.get("/v1/models/hf:a/b")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_metrics_count_what_the_answers_report(ann: httpx.Client) -> None:
    before = samples(ann)
    answer = complete(ann, timings=True, spec_draft_policy="fixed")  # an adaptive one goes by the machine
    after = samples(ann)

    def grown(name: str, labels: str = "") -> float:
        return after[name, labels] - before.get((name, labels), 0.0)

    timings = answer["timings"]
    assert timings["accepted"] > 0
    assert grown("spec_decode_num_draft_tokens_total") == timings["drafted"]
    assert grown("spec_decode_num_accepted_tokens_total") == timings["accepted"]
    positions = [labels for name, labels in after if name == "spec_decode_num_accepted_tokens_per_pos_total"]
    assert (
        sum(grown("spec_decode_num_accepted_tokens_per_pos_total", at) for at in positions)
        == timings["accepted"]
    )
    assert 0 < grown("spec_decode_num_drafts_total") <= timings["passes"]
    assert grown("passes_total") == timings["passes"] + timings["prompt_passes"]
    assert grown("generation_tokens_total") == 24
    assert grown("prompt_tokens_total") == answer["usage"]["prompt_tokens"]
    assert grown("finished_requests_total", "length") == 1
    assert grown("pass_seconds_count") == grown("passes_total") == grown("batch_rows_bucket", "+Inf")
    assert grown("http_responses_total", "/v1/completions,200") == 1
    assert after["num_requests_running", ""] == 0
    assert after["prefix_cache_evicted_blocks_total", ""] >= 0
    assert grown("guarded_requests_total") == grown("replays_total") == 0


def test_metrics_need_a_key_unless_they_are_opened(guarded: WholeServer, smollm2: Model) -> None:
    with guarded.client() as stranger:
        assert stranger.get("/metrics").status_code == 401
    with whole_server(smollm2, KEYS, open_metrics=True) as opened, opened.client() as stranger:
        assert stranger.get("/metrics").status_code == 200
        assert stranger.get("/v1/models").status_code == 401


def test_a_receipt_is_read_by_its_maker_and_hidden_from_others(
    guarded: WholeServer, ann: httpx.Client
) -> None:
    receipt = complete(ann, receipt=True)["choices"][0]["receipt"]
    read = ann.get(receipt["url"])
    assert Receipt.from_bytes(read.content).sha256 == receipt["sha256"]
    with guarded.client(KEYS[1]) as bob:
        hidden, missing = bob.get(receipt["url"]), bob.get("/v1/receipts/nothing")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json() == missing.json()


def test_a_request_gets_the_servers_strategy_and_may_choose_another(ann: httpx.Client) -> None:
    assert complete(ann, timings=True)["timings"]["spec_mode"] == "suffix"
    assert complete(ann, timings=True, spec_mode="off")["timings"]["spec_mode"] == "off"


def test_the_servers_options_are_left_to_the_strategies_that_read_them(smollm2: Model) -> None:
    settings = {
        "spec_mode": "suffix",
        "spec_suffix_min_match": 2,
        "spec_draft_max": 3,
        "strict_drafter": True,
    }
    with whole_server(smollm2, **settings) as server, server.client() as client:
        texts = {
            mode: complete(client, **({"spec_mode": mode} if mode else {}))["choices"][0]["text"]
            for mode in ("", "off", "prompt-lookup", "auto")
        }
    assert len({*texts.values()}) == 1


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("POST", "/v1/nothing", 404, "not_found"),
        ("PUT", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/completions", 405, "method_not_allowed"),
        ("GET", "/docs", 404, "not_found"),
    ],
)
def test_errors_outside_the_routes_have_the_same_shape(
    ann: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    response = ann.request(method, path)
    assert response.status_code == status
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == code


def test_a_body_near_the_limit_passes_and_one_over_it_does_not(ann: httpx.Client) -> None:
    body = {"model": "smollm2-135m", "prompt": "a", "max_tokens": 1}
    near = json.dumps(body).encode() + b" " * 500_000
    over = json.dumps(body).encode() + b" " * 600_000
    headers = {"content-type": "application/json"}
    assert ann.post("/v1/completions", content=near, headers=headers).status_code == 200
    assert ann.post("/v1/completions", content=over, headers=headers).status_code == 413


def test_every_answer_tells_browsers_to_do_nothing_else_with_it(guarded: WholeServer) -> None:
    with guarded.client() as client:
        for path in ("/", "/health", "/v1/models", "/nothing"):
            headers = client.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert re.fullmatch("req_[0-9a-f]{24}", headers["x-request-id"])
            assert "access-control-allow-origin" not in headers
            assert "server" not in headers


def test_only_named_origins_get_cors_headers(smollm2: Model) -> None:
    asks = {"origin": "https://app.example", "access-control-request-method": "POST"}
    asks["access-control-request-headers"] = "authorization,content-type"
    with whole_server(smollm2, KEYS, allow_origin="https://app.example") as server, server.client() as client:
        allowed = client.options("/v1/chat/completions", headers=asks)
        refused = client.options("/v1/chat/completions", headers={**asks, "origin": "https://evil.example"})
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert refused.status_code == 403


def test_the_log_holds_no_prompt_no_answer_no_key_and_no_query(
    ann: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = complete(ann, prompt="a most secret prompt")
        ann.get("/v1/models?token=most-secret-query")
    lines = [
        f"{record.getMessage()} {record.exc_info}"
        for record in caplog.records
        if record.name.startswith(("verispec", "uvicorn", "asyncio", "fastapi"))
    ]
    assert any("POST /v1/completions 200" in line for line in lines)
    for secret in ("most secret", "most-secret", KEYS[0], answer["choices"][0]["text"]):
        assert not any(secret in line for line in lines)


def test_what_fails_inside_is_answered_with_a_number_and_logged_without_the_request(
    guarded: WholeServer, ann: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(COPY)

    monkeypatch.setattr("verispec.serving.models.describe_model", fail)
    response = ann.get("/v1/models")
    assert response.status_code == 500
    number = response.headers["x-request-id"]
    assert number in response.json()["error"]["message"]
    wait_until(lambda: number in caplog.text)
    assert "fail" in caplog.text
    assert COPY not in response.text + caplog.text
    assert ann.get("/health").status_code == 200
