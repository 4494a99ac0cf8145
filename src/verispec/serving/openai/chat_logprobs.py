"""Log-probabilities in the shape of chat completions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from verispec.engine.sampler import Sampled
from verispec.serving.openai.token_text import shown_logprob, shown_text
from verispec.text.tokenizer import Tokenizer


def chat_logprobs(tokenizer: Tokenizer, sampled: Iterable[Sampled]) -> dict[str, Any]:
    """One entry a token, an end token included, with as many alternatives as were asked for."""
    return {"content": [_entry(tokenizer, one) for one in sampled], "refusal": None}


def _entry(tokenizer: Tokenizer, one: Sampled) -> dict[str, Any]:
    assert one.logprob is not None
    alternatives = [_token(tokenizer, token, logprob) for token, logprob in one.alternatives]
    return {**_token(tokenizer, one.token, one.logprob), "top_logprobs": alternatives}


def _token(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    """``bytes`` are those that the token adds to the text: none for a control token."""
    return {
        "token": shown_text(tokenizer, token),
        "bytes": [] if tokenizer.is_control(token) else list(tokenizer.token_bytes(token)),
        "logprob": shown_logprob(logprob),
    }
