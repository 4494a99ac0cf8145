"""Single tokens as the protocol shows them."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.engine.sampler import Sampled
from verispec.serving.openai.events import write_json
from verispec.text.tokenizer import Tokenizer

LEAST_LOGPROB = -9999.0
"""What OpenAI shows for a token that is as good as impossible; JSON has no infinity."""


class TokenTexts:
    """The JSON of each token, made at first use: with alternatives an answer shows the same ones again and again.

    ``entries[token]`` begins an entry of a chat completion's log-probabilities: its number and ``}`` are still to come.
    ``names[token]`` is the string of a text completion's. Safe to share between threads.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.entries: dict[int, str] = _Entries(tokenizer)
        self.names: dict[int, str] = _Names(tokenizer)


class _Entries(dict[int, str]):
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def __missing__(self, token: int) -> str:
        """``bytes`` are those that the token adds to the text: none for a control token."""
        added = [] if self._tokenizer.is_control(token) else list(self._tokenizer.token_bytes(token))
        entry = write_json({"token": shown_text(self._tokenizer, token), "bytes": added})
        begun = self[token] = f'{entry[:-1]},"logprob":'
        return begun


class _Names(dict[int, str]):
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def __missing__(self, token: int) -> str:
        name = self[token] = write_json(distinct_text(self._tokenizer, token))
        return name


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
    """A log-probability that JSON can hold, as its ``repr``. Raises ValueError for one that is no number."""
    if logprob >= LEAST_LOGPROB:
        return logprob
    if logprob < LEAST_LOGPROB:
        return LEAST_LOGPROB
    raise ValueError(f"logprob: expected a number, found {logprob}")


def shown_alternatives(one: Sampled) -> Sequence[tuple[int, float]]:
    """(token, log-probability) of those beside a token, each as ``shown_logprob`` has it."""
    if not one.alternatives or one.alternatives[-1][1] >= LEAST_LOGPROB:  # the last is the least
        return one.alternatives
    return [(token, shown_logprob(logprob)) for token, logprob in one.alternatives]
