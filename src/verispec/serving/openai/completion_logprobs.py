"""Log-probabilities in the shape of text completions: parallel lists over the tokens of prompt (echoed) and answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from verispec.engine.sampler import Sampled
from verispec.serving.openai.token_text import distinct_text, shown_logprob
from verispec.text.detokenizer import Detokenizer
from verispec.text.tokenizer import Tokenizer


class CompletionLogprobs:
    """One choice's log-probabilities, put together piece by piece; it knows where in the text the next token begins.

    ``text_offset`` counts characters from the beginning of the choice's text. A token that completes a character begins
    where that character does.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._offset = 0
        self._answer_text = Detokenizer(tokenizer)

    def prompt(self, scored: Iterable[Sampled]) -> dict[str, Any]:
        """Of the echoed prompt. Nothing comes before its first token, so that has no log-probability."""
        return self._lists(scored, Detokenizer(self._tokenizer, at_text_start=True))

    def answer(self, sampled: Iterable[Sampled]) -> dict[str, Any]:
        """Of the next tokens of the answer, an end token included."""
        return self._lists(sampled, self._answer_text)

    def _lists(self, sampled: Iterable[Sampled], text: Detokenizer) -> dict[str, Any]:
        lists: dict[str, list[Any]] = {
            "tokens": [],
            "token_logprobs": [],
            "top_logprobs": [],
            "text_offset": [],
        }
        for one in sampled:
            lists["tokens"].append(distinct_text(self._tokenizer, one.token))
            lists["token_logprobs"].append(None if one.logprob is None else shown_logprob(one.logprob))
            lists["top_logprobs"].append(self._alternatives(one))
            lists["text_offset"].append(self._offset)
            self._offset += len(text.push(one.token))
        return lists

    def _alternatives(self, one: Sampled) -> dict[str, float] | None:
        """By token; the chosen one is always there. Of two tokens that are written alike the likelier one stays."""
        if one.logprob is None:
            return None
        shown: dict[str, float] = {}
        for token, logprob in (*one.alternatives, (one.token, one.logprob)):
            shown.setdefault(distinct_text(self._tokenizer, token), shown_logprob(logprob))
        return shown


def joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Pieces of one choice's log-probabilities as one."""
    whole: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for part in parts:
        for name, values in part.items():
            whole[name] += values
    return whole
