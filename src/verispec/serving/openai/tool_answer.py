"""Tool calls in answers: found in the text of each choice, and written as the protocol has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verispec.engine.completion import Completion
from verispec.serving.openai.finish import finish_reason
from verispec.text.tool_call_parser import Parsed, ToolCall, ToolCallParser

NewParser = Callable[[], ToolCallParser | None]
"""Makes what finds the calls in one choice's text; None where there can be none."""


def message(completion: Completion, parser: ToolCallParser | None) -> dict[str, Any]:
    """The whole message of one choice. Its content is null where it does nothing but call."""
    if parser is None:
        return {"role": "assistant", "content": completion.text, "refusal": None}
    begun, rest = parser.push(completion.text), parser.flush()
    content, calls = begun.content + rest.content, (*begun.calls, *rest.calls)
    if not calls:
        return {"role": "assistant", "content": content, "refusal": None}
    written = [_written(call) for call in calls]
    return {"role": "assistant", "content": content or None, "refusal": None, "tool_calls": written}


def delta(parsed: Parsed, before: int) -> dict[str, Any]:
    """What a piece of text adds to a message that has ``before`` calls; empty when that is nothing yet."""
    added: dict[str, Any] = {"content": parsed.content} if parsed.content else {}
    if parsed.calls:
        added["tool_calls"] = [
            {"index": before + number, **_written(call)} for number, call in enumerate(parsed.calls)
        ]
    return added


def finish_with_calls(completion: Completion, calls: int) -> str:
    """``tool_calls`` for an answer that ended by itself and called something."""
    reason = finish_reason(completion)
    return "tool_calls" if calls and reason == "stop" else reason


def _written(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


class CallsInStream:
    """The parsers of one stream's choices."""

    def __init__(self, new_parser: NewParser) -> None:
        self._new_parser = new_parser
        self._parsers: dict[int, ToolCallParser] = {}
        self.possible = new_parser() is not None

    def push(self, index: int, text: str) -> dict[str, Any]:
        """The delta that ``text`` makes certain."""
        parser = self._parser(index)
        before = parser.calls
        return delta(parser.push(text), before)

    def flush(self, index: int) -> dict[str, Any]:
        """The delta at the choice's end."""
        parser = self._parser(index)
        before = parser.calls
        return delta(parser.flush(), before)

    def count(self, index: int) -> int:
        """Calls of a choice so far."""
        return self._parsers[index].calls if index in self._parsers else 0

    def _parser(self, index: int) -> ToolCallParser:
        if index not in self._parsers:
            parser = self._new_parser()
            assert parser is not None
            self._parsers[index] = parser
        return self._parsers[index]
