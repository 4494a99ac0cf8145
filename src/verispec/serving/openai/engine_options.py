"""From the names of the protocol to the engine's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.openai.speculation_parameters import SpeculationParameters
from verispec.text.grammar import Grammar

DEFAULT_TEMPERATURE = 1.0
"""What OpenAI documents. The engine's own default is 0."""

_SAME_NAME = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "ignore_eos",
    *SpeculationParameters.model_fields,
)


def asked_options(request: SharedParameters, grammar: Grammar | None) -> dict[str, Any]:
    """What ``request`` says about choosing tokens and about speculation; nothing it leaves open.

    ``grammar`` is the one that the answer must follow.
    """
    options = {name: getattr(request, name) for name in _SAME_NAME}
    options["stop"] = request.stop or None
    options["grammar"] = grammar
    if request.logit_bias:
        options["logit_bias"] = {int(token): bias for token, bias in request.logit_bias.items()}
    if request.seed is not None:
        options["seed"] = request.seed % 2**64
    return {name: value for name, value in options.items() if value is not None}


def completed_options(
    asked: Mapping[str, Any],
    max_tokens: int | None,
    with_defaults: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """``asked`` over the server's defaults, those over OpenAI's. ``max_tokens`` is OpenAI's for the endpoint."""
    openai = {"temperature": DEFAULT_TEMPERATURE, "max_tokens": max_tokens}
    return {**openai, **with_defaults(asked)}
