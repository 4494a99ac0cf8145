"""How models write tool calls, and which way a chat template expects."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from verispec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One way to write calls: ``opening``, spaces, JSON objects with a name and ``arguments_key``, ``closing``.

    ``array``: behind one opening there is a JSON array of calls. ``bare``: an answer that begins with ``{`` is a call
    without its opening, and further calls follow after ``;``. ``parallel``: whether models write more than one.
    """

    name: str
    opening: str
    closing: str
    arguments_key: str
    array: bool = False
    bare: bool = False
    parallel: bool = True

    def shown_tokens(self, tokenizer: Tokenizer) -> frozenset[int]:
        """Control tokens among the markers. Decoded text must show them (``Detokenizer(shown=...)``), since what reads
        the calls reads text.
        """
        markers: Collection[str] = (self.opening, self.closing)
        control = tokenizer.control_texts
        return frozenset(control[marker] for marker in markers if marker in control)


HERMES = ToolFormat("hermes", "<tool_call>", "</tool_call>", "arguments")
LLAMA = ToolFormat("llama", "<|python_tag|>", "", "parameters", bare=True, parallel=False)
MISTRAL = ToolFormat("mistral", "[TOOL_CALLS]", "", "arguments", array=True)


def template_format(template: str) -> ToolFormat | None:
    """The format that a chat template's text asks models for; None where it reads no tools or asks for another one.

    For those there is the fallback of ``tool_messages``.
    """
    if not re.search(r"\btools\b", template):
        return None
    if MISTRAL.opening in template:
        return MISTRAL
    if HERMES.opening in template:
        return HERMES
    if LLAMA.opening in template or re.search(r'"name":.{0,80}"parameters":', template, re.DOTALL):
        return LLAMA
    return None
