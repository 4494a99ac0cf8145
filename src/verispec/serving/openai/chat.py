"""POST /v1/chat/completions: from a checked request to what to ask of the engine."""

from __future__ import annotations

from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.chat_shape import ChatShape
from verispec.serving.openai.checks import check_chat
from verispec.serving.openai.constraints import RENAMED
from verispec.serving.openai.engine_options import asked_options, completed_options
from verispec.serving.openai.head import Head
from verispec.serving.openai.messages import template_messages
from verispec.serving.openai.plan import Plan, choices
from verispec.serving.openai.prompts import in_time
from verispec.serving.state import ServerState

CHAT_NAMES = {**RENAMED, "prompt": "messages", "text": "messages", "logprobs": "top_logprobs"}
"""The engine's names of what is wrong, and the names that the request has for it."""


async def plan_chat(state: ServerState, request: ChatRequest, head: Head) -> Plan:
    """Raises RequestError, and what the engine raises, for a request that cannot be answered."""
    check_chat(request, state.bounds)
    messages = template_messages(request.messages)
    size = sum(len(message["content"]) for message in messages)
    model = state.engine.model
    prompt = await in_time(size, model.encode, messages)
    options = completed_options(_asked(request), None, state.with_defaults)
    shape = ChatShape(request, head, model.tokenizer, prompt)
    return Plan(choices(prompt, options, request.n or 1), shape)


def _asked(request: ChatRequest) -> dict[str, object]:
    options = asked_options(request)
    limit = request.max_completion_tokens or request.max_tokens
    if limit is not None:
        options["max_tokens"] = limit
    if request.logprobs:
        options["logprobs"] = request.top_logprobs or 0
    return options
