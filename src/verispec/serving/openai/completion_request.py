"""The parameters of POST /v1/completions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verispec.serving.openai.parameters import not_implemented
from verispec.serving.openai.shared_parameters import MAX_CHOICES, Alternatives, SharedParameters

DEFAULT_MAX_TOKENS = 16
"""What OpenAI documents for this endpoint."""

TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
TokenIds = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]


class CompletionRequest(SharedParameters):
    """Body of POST /v1/completions."""

    prompt: (
        str
        | TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=MAX_CHOICES, fail_fast=True)]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_CHOICES, fail_fast=True)]
    ) = Field(
        description="Text or token ids to go on from, or a list of either; choices are in the list's order."
    )
    max_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None,
        description=f"Absent means {DEFAULT_MAX_TOKENS}, as OpenAI has it. 0, beside echo, scores the prompt.",
    )
    echo: bool | None = Field(None, description="The prompt before the answer, in text and logprobs.")
    logprobs: Alternatives | None = Field(
        None, description="Alternatives for each token, beside the chosen one."
    )

    best_of: Literal[1] | None = not_implemented("ask for n choices and pick one.")
    suffix: Literal[""] | None = not_implemented("text is continued, not filled in.")
