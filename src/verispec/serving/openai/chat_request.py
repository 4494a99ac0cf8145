"""The parameters of POST /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verispec.serving.openai.messages import Message
from verispec.serving.openai.parameters import Name, Parameters, not_implemented
from verispec.serving.openai.response_format import ResponseFormat
from verispec.serving.openai.shared_parameters import Alternatives, Count, SharedParameters
from verispec.serving.openai.tool_parameters import ToolChoice, Tools

MAX_MESSAGES = 4096
_TEXT_ONLY = "this server reads and writes text."
_USE_TOOLS = "deprecated by OpenAI; use tools and tool_choice."
_NOTHING_STORED = "answers are not stored."


class PromptCacheOptions(Parameters):
    mode: Literal["implicit"] | None = not_implemented(
        "every prefix is cached by blocks; there are no breakpoints."
    )
    ttl: None = not_implemented("prefixes are kept as long as there is room.")


class ChatRequest(SharedParameters):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    max_completion_tokens: Count | None = Field(
        None, description="Most tokens of an answer. Absent: as many as the context has room for."
    )
    max_tokens: Count | None = Field(None, description="The older name of max_completion_tokens.")
    logprobs: bool | None = None
    top_logprobs: Alternatives | None = Field(None, description="Only beside logprobs true.")
    response_format: ResponseFormat | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = Field(None, description="false: at most one call. Absent means true.")
    safety_identifier: Name | None = Field(None, description="Treated as user is.")

    audio: None = not_implemented(_TEXT_ONLY)
    function_call: Literal["none"] | None = not_implemented(_USE_TOOLS)
    functions: Annotated[list[str], Field(max_length=0)] | None = not_implemented(_USE_TOOLS)
    metadata: Annotated[dict[str, str], Field(max_length=0)] | None = not_implemented(_NOTHING_STORED)
    modalities: Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None = not_implemented(
        _TEXT_ONLY
    )
    moderation: None = not_implemented("answers are not moderated.")
    prediction: None = not_implemented("speculation here copies from prompt and answer (spec_mode).")
    prompt_cache_options: PromptCacheOptions | None = None
    prompt_cache_retention: Literal["in_memory"] | None = not_implemented(
        "prefixes are kept in memory, for as long as there is room."
    )
    reasoning_effort: None = not_implemented("how much a model thinks is up to the model.")
    service_tier: Literal["auto", "default"] | None = not_implemented("all requests are equal.")
    store: Literal[False] | None = not_implemented(_NOTHING_STORED)
    verbosity: Literal["medium"] | None = not_implemented("how much a model writes is up to the model.")
    web_search_options: None = not_implemented("there is no web search.")
