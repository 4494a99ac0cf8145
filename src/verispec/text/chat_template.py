"""The chat template of a model file: from messages to the prompt the model was trained on.

Rendering follows the Hugging Face ``apply_chat_template`` rules (whitespace, ``tojson``, ``raise_exception``,
``strftime_now``, loop controls), inside the sandbox of ``template_sandbox``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import PurePath
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, TemplateSyntaxError

from verispec.errors import ArtifactError, OptionError
from verispec.text.template_sandbox import (
    CHARACTERS_A_STEP,
    MAX_TEMPLATE_CHARACTERS,
    Budget,
    TemplateSandbox,
    active_budget,
)
from verispec.text.tokenizer import Tokenizer
from verispec.text.vocabulary import PREFIX

ROLES = ("system", "developer", "user", "assistant", "tool")
KEY = "tokenizer.chat_template"
# what templates call special tokens (bos_token and so on), and what files do
NAMES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding", "sep": "seperator", "mask": "mask"}

# Text that a rendering may make: this much, and some times what it was given.
OUTPUT_CHARACTERS = 1 << 20
OUTPUT_GROWTH = 8

Message = Mapping[str, Any]


class ChatTemplate:
    """One file's template, compiled at its first use. ``ChatTemplate.from_gguf`` makes it."""

    def __init__(self, text: str, names: Mapping[str, str], source: str = "chat template") -> None:
        """``names``: what the template calls ``bos_token`` and so on. ``source``: the file, for errors."""
        self.text = text
        self._names = dict(names)
        self._source = source
        self._file = PurePath(
            source
        ).name  # for errors that a server passes on: its folders are nobody's business

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], source: str = "GGUF metadata") -> ChatTemplate | None:
        """The template in ``metadata``; None when there is none: such a model completes text.

        Raises ArtifactError for one that is no text.
        """
        text = metadata.get(KEY)
        if text is None or text == "":
            return None
        if not isinstance(text, str):
            raise ArtifactError(source, f"metadata key '{KEY}'", "a string", type(text).__name__)
        return cls(text, {f"{name}_token": _token_text(metadata, key) for name, key in NAMES.items()}, source)

    @cached_property
    def _template(self) -> Template:
        """Raises ArtifactError for text that is not a template or uses what templates may not."""
        if len(self.text) > MAX_TEMPLATE_CHARACTERS:
            self._fail(f"at most {MAX_TEMPLATE_CHARACTERS} characters", str(len(self.text)))
        sandbox = TemplateSandbox()
        sandbox.filters["tojson"] = _to_json
        sandbox.globals["raise_exception"] = _raise_exception
        try:
            return sandbox.from_string(self.text)
        except TemplateSyntaxError as error:
            self._fail("a jinja2 template", f"line {error.lineno}: {error.message}")
        except (TemplateError, SyntaxError, RecursionError, MemoryError, ValueError, TypeError) as error:
            self._fail("a chat template", str(error) or type(error).__name__)

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        *,
        now: datetime | None = None,
        **variables: Any,
    ) -> str:
        """The prompt as text, control tokens written out.

        ``messages``: mappings with ``role`` (one of ROLES) and ``content`` (a string); further keys reach the
        template, as ``variables`` do (``tools`` and the like). ``now`` is what ``strftime_now`` shows (None:
        the clock). Raises OptionError for messages that are malformed or that the template refuses.
        """
        _check_messages(messages)
        template = self._template
        size = sum(map(len, _all_texts([messages, variables])))
        token = active_budget.set(Budget(OUTPUT_CHARACTERS + OUTPUT_GROWTH * size))
        try:
            return _write(
                template,
                {
                    "tools": None,
                    "documents": None,
                    **self._names,
                    **variables,
                    "strftime_now": (now or datetime.now()).strftime,
                    "messages": [dict(message) for message in messages],
                    "add_generation_prompt": add_generation_prompt,
                },
            )
        except RecursionError:
            raise OptionError(f"messages: {self._file}: the chat template recurses too deeply") from None
        except Exception as error:  # whatever an untrusted template makes the sandbox raise
            raise OptionError(f"messages: {self._file}: the chat template refuses them: {error}") from error
        finally:
            active_budget.reset(token)

    def encode(
        self,
        messages: Sequence[Message],
        tokenizer: Tokenizer,
        add_generation_prompt: bool = True,
        *,
        now: datetime | None = None,
        **variables: Any,
    ) -> list[int]:
        """Token ids of the prompt. Control tokens come from the template alone: a message, a tool's description
        or a call's argument that holds ``<|im_end|>`` says those characters. The template writes its own BOS where
        the model expects one.
        """
        _check_messages(messages)
        guard = _unused_character(self.text, [messages, variables])
        guarded = _guarded([dict(message) for message in messages], guard, tokenizer)
        variables = _guarded(variables, guard, tokenizer)
        text = self.render(guarded, add_generation_prompt, now=now, **variables)
        return tokenizer.encode(text, parse_special=True, add_bos=False, guard=guard)

    def _fail(self, expected: str, found: str) -> NoReturn:
        raise ArtifactError(self._source, f"metadata key '{KEY}'", expected, found)


def _check_messages(messages: object) -> None:
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise OptionError("messages: expected a list of at least one message")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise OptionError(f"messages[{index}]: expected role and content, found {type(message).__name__}")
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise OptionError(f"messages[{index}].role: expected one of {', '.join(ROLES)}, found {role!r}")
        if not isinstance(content, str):
            raise OptionError(f"messages[{index}].content: expected a string, found {type(content).__name__}")


def text_of(content: object, where: str = "content") -> str:
    """A message's content as text: a string, nothing, or OpenAI's text parts, which stand together as they are.

    Raises OptionError, naming ``where``, for anything else.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
        raise OptionError(f"{where}: expected text or a list of parts, found {type(content).__name__}")
    texts = []
    for index, part in enumerate(content):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise OptionError(f"{where}[{index}]: expected a part of type text, found {part!r:.60}")
        texts.append(text)
    return "".join(texts)


def _all_texts(given: object) -> list[str]:
    """Every string in what is rendered. Raises OptionError where it nests too deeply to be walked."""
    try:
        return list(_texts(given))
    except RecursionError:
        raise OptionError("messages: expected less nesting, also in tools and calls") from None


def _texts(value: object) -> Iterator[str]:
    """Every string in ``value``, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _unused_character(template: str, given: object) -> str:
    """A Unicode noncharacter that occurs nowhere in what is rendered."""
    used = set(template).union(*map(set, _all_texts(given)))
    for code in range(0xFDD0, 0xFDF0):
        if chr(code) not in used:
            return chr(code)
    raise OptionError("messages: expected text without Unicode noncharacters, found all of U+FDD0 to U+FDEF")


def _guarded(value: Any, guard: str, tokenizer: Tokenizer) -> Any:
    """``value`` with control tokens in its texts broken by ``guard``, which encoding removes again."""
    if isinstance(value, str):
        return _guarded_text(value, guard, tokenizer)
    if isinstance(value, Mapping):
        return {
            _guarded(key, guard, tokenizer): _guarded(item, guard, tokenizer) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_guarded(item, guard, tokenizer) for item in value]
    return value


def _guarded_text(text: str, guard: str, tokenizer: Tokenizer) -> str:
    starts: set[int] = set()
    for name in tokenizer.control_texts:
        if name in text:
            starts.update(found.start() for found in re.finditer(f"(?={re.escape(name)})", text))
    for start in sorted(starts, reverse=True):
        text = text[: start + 1] + guard + text[start + 1 :]
    return text


def _write(template: Template, variables: dict[str, Any]) -> str:
    budget = active_budget.get()
    parts = []
    written = 0
    for part in template.generate(variables):
        written += len(part)
        budget.check_product(written, 1)
        parts.append(part)
    return "".join(parts)


def _token_text(metadata: Mapping[str, Any], name: str) -> str:
    """The text of a special token that the file names; the tokeniser checks these keys, not the template."""
    tokens, token = metadata.get(f"{PREFIX}tokens"), metadata.get(f"{PREFIX}{name}_token_id")
    if isinstance(tokens, list) and isinstance(token, int) and 0 <= token < len(tokens):
        return str(tokens[token])
    return ""


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if indent is not None and not 0 <= indent <= 16:
        raise TemplateError(f"tojson: expected an indent from 0 to 16, found {indent}")
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    budget = active_budget.get()
    budget.spend(1 + len(text) // CHARACTERS_A_STEP)
    return str(budget.check_size(text))
