"""POST /v1/chat/completions: from a checked request to what to ask of the engine."""

from __future__ import annotations

from typing import Any

from verispec.engine.model import Model
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.chat_shape import ChatShape
from verispec.serving.openai.checks import check_chat
from verispec.serving.openai.constraints import asked_grammar
from verispec.serving.openai.engine_options import asked_options, completed_options
from verispec.serving.openai.head import Head
from verispec.serving.openai.messages import template_messages
from verispec.serving.openai.plan import Plan, choices
from verispec.serving.openai.prompts import LONG, in_time
from verispec.serving.state import ServerState
from verispec.text.grammar import Grammar
from verispec.text.tool_calls import ToolUse, use_tools

CHAT_NAMES = {"prompt": "messages", "text": "messages", "logprobs": "top_logprobs"}
"""The engine's names of what is wrong, and the names that the request has for it."""


async def plan_chat(state: ServerState, request: ChatRequest, head: Head) -> Plan:
    """Raises RequestError, and what the engine raises, for a request that cannot be answered."""
    check_chat(request, state.bounds)
    messages = template_messages(request.messages)
    size = sum(len(message["content"]) for message in messages) + (LONG if request.tools else 0)
    model = state.engine.model
    prompt, tools = await in_time(size, _encoded, model, messages, request)
    grammar = tools.grammar or await asked_grammar(request, state.grammar_threads)
    options = completed_options(_asked(request, tools, grammar), None, state.with_defaults)
    shape = ChatShape(request, head, state.token_texts, prompt, tools.parser)
    return Plan(choices(prompt, options, request.n or 1), shape)


def _encoded(model: Model, messages: list[dict[str, Any]], request: ChatRequest) -> tuple[list[int], ToolUse]:
    """The prompt's token ids, and what the request's tools come to."""
    if model.template is None:
        model.encode(messages)  # raises what there is to say about that
    assert model.template is not None
    tools = use_tools(
        model.template,
        model.tokenizer,
        messages,
        [tool.model_dump(exclude_none=True) for tool in request.tools or ()],
        _tool_choice(request),
        request.parallel_tool_calls is not False,
    )
    return model.encode(tools.encode(model.template, model.tokenizer)), tools


def _tool_choice(request: ChatRequest) -> str | dict[str, Any] | None:
    choice = request.tool_choice
    return choice if choice is None or isinstance(choice, str) else choice.model_dump()


def _asked(request: ChatRequest, tools: ToolUse, grammar: Grammar | None) -> dict[str, Any]:
    options = asked_options(request, grammar)
    limit = request.max_completion_tokens or request.max_tokens
    if limit is not None:
        options["max_tokens"] = limit
    if request.logprobs:
        options["logprobs"] = request.top_logprobs or 0
    if tools.shown_tokens:
        options["shown_tokens"] = tuple(sorted(tools.shown_tokens))
    return options
