"""Parameters that chat and text completions share, each implemented or refused by name.

A parameter of OpenAI's that is not implemented takes the one value that asks for nothing, and its description says why
no other does. So the OpenAPI schema, which is made from these models, is exact.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verispec.engine.options import MAX_ALTERNATIVES
from verispec.serving.openai.parameters import Name, Parameters, not_implemented
from verispec.serving.openai.speculation_parameters import SpeculationParameters

MAX_CHOICES = 128
MAX_STOPS = 16
MAX_DEADLINE = 86400.0
MAX_GRAMMAR = 1 << 16
"""Characters of a grammar."""

StopString = Annotated[str, Field(min_length=1)]
TokenName = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,9})$")]
Bias = Annotated[float, Field(ge=-100, le=100)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Alternatives = Annotated[int, Field(ge=0, le=MAX_ALTERNATIVES)]


class StreamOptions(Parameters):
    include_usage: bool | None = Field(
        None, description="One more chunk at the end, with the usage of all choices."
    )
    include_obfuscation: Literal[False] | None = not_implemented(
        "chunks are not padded to hide their length."
    )


class SharedParameters(SpeculationParameters):
    """``null`` always means absent."""

    model: Name = Field(description="The served model's id or an alias of it.")

    # how tokens are chosen
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="0 is greedy. Absent means 1, as OpenAI has it (verispec's commands default to 0)."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Choose among the most probable tokens that have this probability together."
    )
    top_k: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None, description="Choose among that many of the most probable tokens; 0 among all."
    )
    min_p: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Drop tokens less probable than this share of the most probable one's probability."
    )
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = Field(
        None, description="Divides the positive logits of tokens seen in prompt or answer; 1 does nothing."
    )
    logit_bias: dict[TokenName, Bias] | None = Field(
        None, description="Token id to what is added to its logit."
    )
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = Field(
        None, description="Same seed, same text, whatever else is running. A negative one means 2^64 more."
    )
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = Field(
        None, description="Choices for each prompt."
    )
    grammar: Annotated[str, Field(min_length=1, max_length=MAX_GRAMMAR)] | None = Field(
        None, description="A grammar in EBNF (llguidance's Lark dialect) that the answer follows."
    )

    # when an answer ends
    stop: StopString | Annotated[list[StopString], Field(max_length=MAX_STOPS)] | None = Field(
        None, description="What the answer ends before; a string or several."
    )
    ignore_eos: bool | None = Field(None, description="Go on past end tokens.")
    deadline: Annotated[float, Field(gt=0, le=MAX_DEADLINE)] | None = Field(
        None, description="Seconds after which the request is given up, with status 504."
    )

    # how it is given back
    stream: bool | None = None
    stream_options: StreamOptions | None = Field(None, description="Only beside stream true.")
    return_token_ids: bool | None = Field(None, description="prompt_token_ids and token_ids in every choice.")
    timings: bool | None = Field(
        None,
        description="The server's own clocks in every choice; drafted and accepted tokens in every chunk.",
    )
    receipt: bool | Literal["include-text"] | None = Field(
        None, description="Leave a receipt at /v1/receipts/{id}; include-text stores prompt and answer in it."
    )

    # what the prefix cache never crosses
    user: Name | None = Field(None, description="Part of the prefix cache's identity, and of nothing else.")
    prompt_cache_key: Name | None = Field(None, description="Part of the prefix cache's identity.")
    cache_prompt: bool | None = Field(
        None, description="false: evaluate the whole prompt, whatever is cached (cached_tokens is then 0)."
    )
