"""Single tokens as the protocol shows them."""

from __future__ import annotations

from verispec.text.tokenizer import Tokenizer

LEAST_LOGPROB = -9999.0
"""What OpenAI shows for a token that is as good as impossible; JSON has no infinity."""


def shown_text(tokenizer: Tokenizer, token: int) -> str:
    """The token's text, U+FFFD where it holds part of a character; a control token's is its name."""
    return tokenizer.token_bytes(token).decode("utf-8", "replace")


def distinct_text(tokenizer: Tokenizer, token: int) -> str:
    """The same, but a token that holds part of a character is written ``bytes:\\xe2\\x80``, as OpenAI does."""
    data = tokenizer.token_bytes(token)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def shown_logprob(logprob: float) -> float:
    """A log-probability that JSON can hold."""
    return max(logprob, LEAST_LOGPROB)
