"""Messages with tool calls and tool results, as chat templates take them, and as text where a template cannot.

The fallback, for templates that read no tools or ask for calls in a format that is not known here: a system message,
joined to the caller's own, lists the tools and asks for calls as Hermes models write them; earlier calls are shown that
way, and results as user messages between ``<tool_response>`` marks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from verispec.errors import OptionError
from verispec.text.chat_template import Message, text_of
from verispec.text.tool_formats import HERMES

INSTRUCTIONS = """\
You may call functions to help with the request. These are their signatures:
<tools>
{tools}
</tools>
To call one, write its name and arguments as JSON like this:
<tool_call>
{{"name": "<function name>", "arguments": {{<arguments>}}}}
</tool_call>"""


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages with text as content and the arguments of calls as objects, which is what templates expect.

    Raises OptionError for content that is not text and for arguments that are not a JSON object.
    """
    return [_template_message(message, index) for index, message in enumerate(messages)]


def _template_message(message: Message, index: int) -> dict[str, Any]:
    given = {**message, "content": text_of(message.get("content"), f"messages[{index}].content")}
    calls = given.get("tool_calls")
    if not calls:
        given.pop("tool_calls", None)
        return given
    if not isinstance(calls, Sequence):
        raise OptionError(f"messages[{index}].tool_calls: expected a list, found {type(calls).__name__}")
    given["tool_calls"] = [
        _template_call(call, f"messages[{index}].tool_calls[{number}]") for number, call in enumerate(calls)
    ]
    return given


def _template_call(call: object, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or "name" not in function:
        raise OptionError(f"{where}: expected an object with a function and its name")
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise OptionError(f"{where}.function.arguments: expected JSON, found {error}") from error
    if not isinstance(arguments, Mapping):
        found = type(arguments).__name__
        raise OptionError(f"{where}.function.arguments: expected a JSON object, found {found}")
    return {**call, "function": {**function, "arguments": dict(arguments)}}


def fallback_messages(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """``template_messages`` without tools: everything about them is in the text."""
    shown: list[dict[str, Any]] = []
    results = False
    for message in messages:
        if message["role"] == "tool":
            text = f"<tool_response>\n{message['content']}\n</tool_response>"
            if results:
                shown[-1]["content"] += "\n" + text
            else:
                shown.append({"role": "user", "content": text})
        else:
            shown.append(_with_calls_as_text(message))
        results = message["role"] == "tool"
    if not tools:
        return shown
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    instructions = INSTRUCTIONS.format(tools=lines)
    if shown and shown[0]["role"] in ("system", "developer"):
        own = shown[0]["content"]
        shown[0]["content"] = f"{own}\n\n{instructions}" if own else instructions
    else:
        shown.insert(0, {"role": "system", "content": instructions})
    return shown


def _with_calls_as_text(message: Message) -> dict[str, Any]:
    given = {"role": message["role"], "content": message["content"]}
    texts = [given["content"]] if given["content"] else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        body = {"name": function["name"], HERMES.arguments_key: function["arguments"]}
        texts.append(f"{HERMES.opening}\n{json.dumps(body, ensure_ascii=False)}\n{HERMES.closing}")
    return {**given, "content": "\n".join(texts)}
