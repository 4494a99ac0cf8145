"""Requests made from the server's own OpenAPI schema, right and wrong: none ends in a failure inside the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from verispec.engine.model import Model
from whole_server import WholeServer, whole_server

ANSWERING = ("/v1/chat/completions", "/v1/completions")
EXPECTED = {200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 504}


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[WholeServer]:
    with whole_server(smollm2, deadline=0.5) as running:
        yield running


@pytest.fixture(scope="module")
def schema(server: WholeServer) -> Any:
    """The served schema, with the served model as the only name for one: others would all end in 404."""
    with server.client() as client:
        document = client.get("/openapi.json").json()
    for path in ANSWERING:
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        body["properties"]["model"] = {"enum": ["smollm2-135m"]}
    loaded = schemathesis.openapi.from_dict(document)
    loaded.config.update(base_url=server.url)
    return loaded


def test_every_route_is_described(server: WholeServer) -> None:
    with server.client() as client:
        paths = client.get("/openapi.json").json()["paths"]
    assert paths.keys() == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/v1/models/{model_id}",
        "/v1/receipts/{receipt_id}",
        "/health",
        "/metrics",
    }


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", ANSWERING)
def test_no_request_for_an_answer_ends_in_a_failure(schema: Any, path: str, mode: GenerationMode) -> None:
    seen = check(schema[path]["POST"], mode)
    assert seen & {200, 504} if mode is GenerationMode.POSITIVE else seen & {400}


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/{model_id}", "/v1/receipts/{receipt_id}", "/health", "/metrics"]
)
def test_no_question_ends_in_a_failure(schema: Any, path: str) -> None:
    check(schema[path]["GET"], GenerationMode.POSITIVE)


def check(operation: Any, mode: GenerationMode) -> set[int]:
    """Sends requests of an operation and gives the statuses that came back."""
    seen: set[int] = set()

    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def every_case(case: schemathesis.Case) -> None:
        response = case.call(timeout=30)
        seen.add(response.status_code)
        assert response.status_code in EXPECTED, response.text
        if response.status_code >= 400:
            assert response.json()["error"].keys() == {"message", "type", "param", "code"}

    every_case()
    return seen
