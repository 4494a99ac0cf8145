"""The two endpoints that generate: POST /v1/chat/completions and POST /v1/completions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response

from verispec.serving.openai.body import read_object
from verispec.serving.openai.chat import CHAT_NAMES, plan_chat
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.checks import check_model
from verispec.serving.openai.completion_request import CompletionRequest
from verispec.serving.openai.completions import COMPLETION_NAMES, plan_completion
from verispec.serving.openai.connection import while_connected
from verispec.serving.openai.constraints import grammar_names
from verispec.serving.openai.errors import RequestError, as_request_error
from verispec.serving.openai.exchange import Exchange
from verispec.serving.openai.head import Head, fingerprint
from verispec.serving.openai.openapi import request_body, responses
from verispec.serving.openai.plan import Plan
from verispec.serving.openai.prompts import in_time
from verispec.serving.openai.responses import EventStream, error_response, json_response
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.openai.validation import parse
from verispec.serving.state import ServerState

AnyRequest = TypeVar("AnyRequest", bound=SharedParameters)
CLIENT_GONE = 499
BYTES = 16
"""Of a body, read in the time that one character of a prompt takes to become tokens."""


@dataclass(frozen=True)
class Endpoint(Generic[AnyRequest]):
    """What the endpoints differ in. ``names``: the engine's names of options to the protocol's."""

    parameters: type[AnyRequest]
    plan: Callable[[ServerState, AnyRequest, Head], Awaitable[Plan]]
    id_prefix: str
    names: Mapping[str, str]


CHAT = Endpoint(ChatRequest, plan_chat, "chatcmpl", CHAT_NAMES)
COMPLETIONS = Endpoint(CompletionRequest, plan_completion, "cmpl", COMPLETION_NAMES)


def openai_routes(state: ServerState) -> APIRouter:
    """The routes of a server. Each request needs ``identity`` and ``request_id`` in its state."""
    routes = APIRouter()
    served = [state.model_id, *sorted(state.aliases)]
    version = fingerprint(state.engine.model.backend.identity())

    @routes.post(
        "/v1/chat/completions",
        summary="Answer a conversation",
        responses=responses("chat.completion", "chat.completion.chunk"),
        openapi_extra=request_body(ChatRequest, served),
    )
    async def create_chat_completion(http: Request) -> Response:
        return await _answer(CHAT, state, version, http)

    @routes.post(
        "/v1/completions",
        summary="Go on from a text, or score it",
        responses=responses("text_completion", "text_completion"),
        openapi_extra=request_body(CompletionRequest, served),
    )
    async def create_completion(http: Request) -> Response:
        return await _answer(COMPLETIONS, state, version, http)

    return routes


async def _answer(
    endpoint: Endpoint[AnyRequest], state: ServerState, version: str, http: Request
) -> Response:
    """The response to one request; every error becomes one."""
    number, caller = http.state.request_id, http.state.identity
    names = dict(endpoint.names)

    def explain(error: Exception) -> RequestError:
        return as_request_error(error, number, names)

    try:
        raw = await http.body()
        arrived = time.perf_counter()
        content_type = http.headers.get("content-type")
        request = await in_time(len(raw) // BYTES, _read, endpoint.parameters, content_type, raw)
        check_model(request, state)
        names |= grammar_names(request)
        head = Head.new(endpoint.id_prefix, state.model_id, version)
        plan = partial(endpoint.plan, state, request, head)
        exchange = Exchange(state, request, plan, caller, head.id, arrived)
        if request.stream:
            return EventStream(exchange.stream(), explain)
        answer = await while_connected(http.receive, exchange.whole())
        return Response(status_code=CLIENT_GONE) if answer is None else json_response(answer)
    except Exception as error:
        return error_response(explain(error))


def _read(parameters: type[AnyRequest], content_type: str | None, raw: bytes) -> AnyRequest:
    return parse(parameters, read_object(content_type, raw))
