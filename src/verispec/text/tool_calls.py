"""OpenAI's ``tools`` and ``tool_choice``: what they make of a prompt, of an answer's grammar and of its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verispec.errors import OptionError
from verispec.text.chat_template import ChatTemplate, Message
from verispec.text.grammar import Grammar
from verispec.text.tokenizer import Tokenizer
from verispec.text.tool_call_parser import ToolCall, ToolCallParser
from verispec.text.tool_formats import HERMES, ToolFormat, template_format
from verispec.text.tool_grammar import tool_grammar
from verispec.text.tool_messages import fallback_messages, template_messages

__all__ = ["ToolCall", "ToolCallParser", "ToolUse", "use_tools"]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What a request's tools come to.

    ``messages`` and ``tools`` are for the chat template. ``grammar`` is what the answer must follow: None where the
    model is free to write text. ``names`` are the functions it may call; without any, its text is no call. The engine
    must show the control tokens ``shown_tokens`` in the text that the parser is given.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    grammar: Grammar | None
    names: frozenset[str]
    format: ToolFormat
    parallel: bool
    shown_tokens: frozenset[int]

    def encode(self, template: ChatTemplate, tokenizer: Tokenizer) -> list[int]:
        """Token ids of the prompt."""
        return template.encode(self.messages, tokenizer, tools=self.tools)

    def parser(self) -> ToolCallParser | None:
        """What finds the calls in one answer's text; None where there can be none."""
        return ToolCallParser(self.format, self.names, self.parallel) if self.names else None


def use_tools(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: str | Mapping[str, Any] | None = None,
    parallel: bool = True,
) -> ToolUse:
    """Reads a request's fields as OpenAI defines them. ``tool_choice`` None is ``auto``.

    ``none`` shows the model no tools. ``required`` and a named function give a grammar that makes the answer a call;
    ``allowed_tools`` chooses among the tools first. Also right without tools, for messages that tell of earlier calls.
    Raises OptionError that names the field, and GrammarError for parameters that are no usable schema.
    """
    functions = _functions(tools)
    shown = template_messages(messages)
    names, forced = _chosen(tool_choice, functions)
    offered = [
        dict(tool) for tool, name in zip(tools, functions, strict=True) if names is None or name in names
    ]
    chosen = {name: function for name, function in functions.items() if names is None or name in names}
    known = template_format(template.text)
    tool_format = known or HERMES
    grammar = None
    if forced is not None:
        places = {name: place for place, name in enumerate(functions)}
        may = {places[name]: function for name, function in chosen.items() if name in forced}
        grammar = tool_grammar(may, tool_format, tokenizer, parallel)
        chosen = {name: chosen[name] for name in forced}
    if known is None:
        shown, offered = fallback_messages(shown, offered), []
    return ToolUse(
        messages=shown,
        tools=offered or None,
        grammar=grammar,
        names=frozenset(chosen),
        format=tool_format,
        parallel=parallel and tool_format.parallel,
        shown_tokens=tool_format.shown_tokens(tokenizer) if chosen else frozenset(),
    )


def _functions(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    functions: dict[str, Mapping[str, Any]] = {}
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise OptionError(f"tools[{index}]: expected an object with a function and its name")
        if function["name"] in functions:
            raise OptionError(
                f"tools[{index}].function.name: expected each name once, found {function['name']!r}"
            )
        if not isinstance(function.get("parameters") or {}, Mapping):
            raise OptionError(f"tools[{index}].function.parameters: expected a JSON schema")
        functions[function["name"]] = function
    return functions


def _chosen(
    choice: str | Mapping[str, Any] | None, functions: Mapping[str, object]
) -> tuple[frozenset[str] | None, tuple[str, ...] | None]:
    """The names that the model is shown (None: all), and those of which it must call one (None: it need not)."""
    if choice is None or choice == "auto":
        return None, None
    if choice == "none":
        return frozenset(), None
    if choice == "required":
        if not functions:
            raise OptionError("tool_choice: expected tools beside 'required', found none")
        return None, tuple(functions)
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        return None, (_known_name(choice, functions, "tool_choice"),)
    allowed = choice.get("allowed_tools") if isinstance(choice, Mapping) else None
    if isinstance(allowed, Mapping) and isinstance(allowed.get("tools"), Sequence) and allowed["tools"]:
        where = "tool_choice.allowed_tools.tools"
        names = dict.fromkeys(_known_name(tool, functions, where) for tool in allowed["tools"])
        return frozenset(names), tuple(names) if allowed.get("mode") == "required" else None
    expected = "none, auto, required, a function or allowed_tools"
    raise OptionError(f"tool_choice: expected {expected}, found {choice!r}")


def _known_name(choice: object, functions: Mapping[str, object], where: str) -> str:
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or name not in functions:
        raise OptionError(f"{where}: expected the name of a tool, found {name!r}")
    return name
