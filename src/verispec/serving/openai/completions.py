"""POST /v1/completions: from a checked request to what to ask of the engine."""

from __future__ import annotations

from typing import Any

from verispec.errors import ContextOverflowError, OptionError
from verispec.serving.openai.checks import check_completion
from verispec.serving.openai.completion_request import DEFAULT_MAX_TOKENS, CompletionRequest
from verispec.serving.openai.completion_shape import CompletionShape
from verispec.serving.openai.constraints import asked_grammar
from verispec.serving.openai.engine_options import asked_options, completed_options
from verispec.serving.openai.head import Head
from verispec.serving.openai.plan import Plan, choices
from verispec.serving.openai.prompts import TextPrompt, prompt_list, text_prompt
from verispec.serving.state import ServerState
from verispec.text.grammar import Grammar

COMPLETION_NAMES = {"text": "prompt", "prompt_logprobs": "logprobs"}
"""The engine's names of what is wrong, and the names that the request has for it."""


async def plan_completion(state: ServerState, request: CompletionRequest, head: Head) -> Plan:
    """Raises RequestError, and what the engine raises, for a request that cannot be answered."""
    given = prompt_list(request)
    check_completion(request, len(given), state.bounds)
    size = sum(map(len, given))
    prompts = [await _encoded(state, one, size, index, len(given)) for index, one in enumerate(given)]
    grammar = await asked_grammar(request, state.grammar_threads)
    options = completed_options(_asked(request, grammar), DEFAULT_MAX_TOKENS, state.with_defaults)
    shape = CompletionShape(request, head, state.token_texts, prompts)
    count = request.n or 1
    return Plan([one for prompt in prompts for one in choices(prompt.tokens, options, count)], shape)


async def _encoded(
    state: ServerState, prompt: str | list[int], size: int, index: int, count: int
) -> TextPrompt:
    """The prompt's tokens. Of several, the error of one says which."""
    try:
        return await text_prompt(state.engine.model, prompt, size)
    except (OptionError, ContextOverflowError) as error:
        if count == 1:
            raise
        _, _, rest = str(error).partition(": ")
        raise type(error)(f"prompt[{index}]: {rest}") from error


def _asked(request: CompletionRequest, grammar: Grammar | None) -> dict[str, Any]:
    options = asked_options(request, grammar)
    if request.max_tokens is not None:
        options["max_tokens"] = request.max_tokens
    if request.logprobs is not None:
        options["logprobs"] = request.logprobs
    if request.echo and request.logprobs is not None:
        options["prompt_logprobs"] = request.logprobs
    elif request.max_tokens == 0:
        options["prompt_logprobs"] = 0  # the engine writes nothing only where it scores the prompt
    return options
