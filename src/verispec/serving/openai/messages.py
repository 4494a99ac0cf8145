"""Chat messages as requests hold them, and as chat templates take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from verispec.serving.openai.parameters import Name, Parameters, not_implemented

_NO_AUDIO = "this server reads text."
_DEPRECATED = "deprecated by OpenAI; use tool_calls."
_PARSED = "What OpenAI's client adds to a message that it has parsed, and sends back; it says nothing new."


class TextPart(Parameters):
    type: Literal["text"]
    text: str


Content = str | Annotated[list[TextPart], Field(min_length=1)]


class SystemMessage(Parameters):
    role: Literal["system"]
    content: Content
    name: Name | None = None


class DeveloperMessage(Parameters):
    role: Literal["developer"]
    content: Content
    name: Name | None = None


class UserMessage(Parameters):
    role: Literal["user"]
    content: Content
    name: Name | None = None


class CalledFunction(Parameters):
    name: Name
    arguments: str = Field(description="A JSON object, as text.")
    parsed_arguments: Any = Field(None, description=_PARSED, exclude=True)


class ToolCall(Parameters):
    id: Name
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(Parameters):
    role: Literal["assistant"]
    content: Content | None = None
    name: Name | None = None
    tool_calls: list[ToolCall] | None = None
    parsed: Any = Field(None, description=_PARSED, exclude=True)
    refusal: None = not_implemented("models here do not mark refusals.")
    audio: None = not_implemented(_NO_AUDIO)
    function_call: None = not_implemented(_DEPRECATED)
    annotations: Annotated[list[str], Field(max_length=0)] | None = not_implemented("there is no web search.")


class ToolMessage(Parameters):
    role: Literal["tool"]
    content: Content
    tool_call_id: Name


Message = Annotated[
    SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage,
    Field(discriminator="role"),
]


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """What a chat template is given: ``content`` is a string, text parts stand together as they are.

    Further fields (``name``, ``tool_calls``, ``tool_call_id``) are passed on where they were given.
    """
    return [_template_message(message) for message in messages]


def _template_message(message: Message) -> dict[str, Any]:
    given = message.model_dump(exclude_none=True)
    content = given.get("content", "")
    given["content"] = content if isinstance(content, str) else "".join(part["text"] for part in content)
    return given
