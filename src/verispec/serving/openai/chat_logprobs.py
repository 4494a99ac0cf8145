"""Log-probabilities in the shape of chat completions."""

from __future__ import annotations

from collections.abc import Iterable

from verispec.engine.sampler import Sampled
from verispec.serving.openai.token_text import TokenTexts, shown_alternatives, shown_logprob


def chat_logprobs(texts: TokenTexts, sampled: Iterable[Sampled]) -> str:
    """JSON with one entry a token, an end token included, with as many alternatives as were asked for."""
    content = ",".join([_entry(texts, one) for one in sampled])
    return f'{{"content":[{content}],"refusal":null}}'


def _entry(texts: TokenTexts, one: Sampled) -> str:
    assert one.logprob is not None
    entries = texts.entries
    alternatives = ",".join([f"{entries[token]}{logprob!r}}}" for token, logprob in shown_alternatives(one)])
    return f'{entries[one.token]}{shown_logprob(one.logprob)!r},"top_logprobs":[{alternatives}]}}'
