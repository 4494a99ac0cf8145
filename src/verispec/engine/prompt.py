"""From what a caller gives (text, messages or token ids) to the prompt's token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verispec.errors import ContextOverflowError, OptionError, UnsupportedError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer

Prompt = str | Sequence[int] | Sequence[Mapping[str, str]]


def encode_prompt(
    prompt: Prompt, tokenizer: Tokenizer, template: ChatTemplate | None, context: int
) -> list[int]:
    """Token ids of ``prompt``: a string is completed as it stands, messages go through the model's chat template.

    Raises ContextOverflowError when no token could follow within ``context``.
    """
    tokens = _encode(prompt, tokenizer, template)
    if not tokens:
        raise OptionError("prompt: expected at least one token, found an empty prompt")
    if len(tokens) >= context:
        raise ContextOverflowError(
            f"prompt: expected fewer than {context} tokens (the context), found {len(tokens)}; "
            "shorten it or load the model with a larger ctx"
        )
    return tokens


def _encode(prompt: Prompt, tokenizer: Tokenizer, template: ChatTemplate | None) -> list[int]:
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    if not isinstance(prompt, Sequence):
        raise OptionError(f"prompt: expected text, messages or token ids, found {prompt!r}")
    if isinstance(prompt, (bytes, bytearray)) or not isinstance(prompt, Sequence):
        raise OptionError(
            f"prompt: expected text, chat messages or token ids, found a value of type {type(prompt).__name__}"
        )
    entries: list[Any] = list(prompt)
    if entries and all(isinstance(message, Mapping) for message in entries):
        if template is None:
            raise UnsupportedError(
                "no-chat-template",
                "messages were given, but this model's file has no chat template",
                "Give a plain string: this model completes text",
            )
        return template.encode([dict(message) for message in entries], tokenizer)
    for index, token in enumerate(entries):
        if type(token) is not int or not 0 <= token < tokenizer.vocabulary_size:
            raise OptionError(
                f"prompt: entry {index}: expected a token id in 0..{tokenizer.vocabulary_size - 1} (or only messages), "
                f"found {token!r}"
            )
    return entries
