"""From what a request gives to token ids: each prompt once, however many choices go on from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from verispec.engine.model import Model
from verispec.serving.openai.completion_request import CompletionRequest

LONG = 4096
"""Characters, tokens or alternatives of one request from which they are worked on in a thread, so that others are
served meanwhile."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Token ids, and the text that ``echo`` gives back for them."""

    tokens: Sequence[int]
    text: str


def prompt_list(request: CompletionRequest) -> list[str | list[int]]:
    """The request's prompts, one or several."""
    prompt = request.prompt
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt[0], int):
        return [prompt]
    return cast("list[str | list[int]]", prompt)


async def text_prompt(model: Model, prompt: str | list[int], size: int) -> TextPrompt:
    """``size`` is that of all prompts of the request: many short ones take as long as a long one.

    Raises OptionError and ContextOverflowError as ``Model.encode`` does.
    """

    def encode() -> TextPrompt:
        tokens = model.encode(prompt)
        return TextPrompt(tokens, prompt if isinstance(prompt, str) else model.tokenizer.decode(tokens))

    return await in_time(size, encode)


async def in_time(size: int, work: Callable[..., Result], *arguments: Any) -> Result:
    """The result of ``work`` on something of ``size``: at once when it is short, in a worker thread otherwise."""
    return work(*arguments) if size < LONG else await asyncio.to_thread(work, *arguments)
