"""Log-probabilities in the shape of text completions: parallel lists over the tokens of prompt (echoed) and answer."""

from __future__ import annotations

from collections.abc import Iterable

from verispec.engine.sampler import Sampled
from verispec.serving.openai.token_text import TokenTexts, shown_alternatives, shown_logprob
from verispec.text.detokenizer import Detokenizer


class CompletionLogprobs:
    """One choice's log-probabilities, put together piece by piece; it knows where in the text the next token begins.

    ``text_offset`` counts characters from the beginning of the choice's text. A token that completes a character begins
    where that character does.
    """

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._offset = 0
        self._answer_text = Detokenizer(texts.tokenizer)
        self._clear()

    def add_prompt(self, scored: Iterable[Sampled]) -> None:
        """The echoed prompt. Nothing comes before its first token, so that has no log-probability."""
        self._add(scored, Detokenizer(self._texts.tokenizer, at_text_start=True))

    def add_answer(self, sampled: Iterable[Sampled]) -> None:
        """The next tokens of the answer, an end token included."""
        self._add(sampled, self._answer_text)

    def take(self) -> str:
        """JSON of what was added since this was last called."""
        written = (
            f'{{"tokens":[{",".join(self._tokens)}],"token_logprobs":[{",".join(self._logprobs)}],'
            f'"top_logprobs":[{",".join(self._alternatives)}],"text_offset":[{",".join(self._offsets)}]}}'
        )
        self._clear()
        return written

    def _clear(self) -> None:
        self._tokens: list[str] = []
        self._logprobs: list[str] = []
        self._alternatives: list[str] = []
        self._offsets: list[str] = []

    def _add(self, sampled: Iterable[Sampled], text: Detokenizer) -> None:
        names = self._texts.names
        for one in sampled:
            self._tokens.append(names[one.token])
            self._logprobs.append("null" if one.logprob is None else repr(shown_logprob(one.logprob)))
            self._alternatives.append(self._alternatives_of(one))
            self._offsets.append(str(self._offset))
            self._offset += len(text.push(one.token))

    def _alternatives_of(self, one: Sampled) -> str:
        """By token; the chosen one is always there. Of two tokens that are written alike the likelier one stays."""
        if one.logprob is None:
            return "null"
        names, alternatives = self._texts.names, shown_alternatives(one)
        shown = {names[token]: logprob for token, logprob in alternatives}
        if len(shown) < len(alternatives):
            shown = {}
            for token, logprob in alternatives:
                shown.setdefault(names[token], logprob)
        shown.setdefault(names[one.token], shown_logprob(one.logprob))
        return "{" + ",".join([f"{name}:{logprob!r}" for name, logprob in shown.items()]) + "}"
