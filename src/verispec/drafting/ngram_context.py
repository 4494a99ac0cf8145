"""Strategy ``ngram-context``: online n-gram statistics of the request, with backoff, followed as a chain."""

from __future__ import annotations

from verispec.drafting.confidence import unseen_cases
from verispec.drafting.contract import Proposal
from verispec.drafting.history import HistoryDrafter

_TOKEN_BITS = 32


class NgramContextDrafter(HistoryDrafter):
    """Chains the most frequent token after the last ``ngram_max`` tokens, backing off to fewer, to
    ``ngram_min``.

    A token's confidence is its share after that context, interpolated with its share after each shorter one
    (Jelinek and Mercer's scheme, with the weights of ``unseen_cases``).
    """

    name = "ngram-context"

    def __init__(self, ngram_min: int = 1, ngram_max: int = 4, p_min: float = 0.0) -> None:
        super().__init__()
        self._ngram_min = ngram_min
        self._ngram_max = ngram_max
        self._p_min = p_min
        self._clear()

    def _clear(self) -> None:
        # An n-gram is one integer, its tokens in order; index n holds those of n tokens.
        orders = range(self._ngram_max + 2)
        self._counts: list[dict[int, int]] = [{} for _ in orders]
        self._followed: list[dict[int, int]] = [{} for _ in orders]
        self._likeliest: list[dict[int, int]] = [{} for _ in orders]

    def _index(self, start: int) -> None:
        tokens = self._tokens
        for end in range(max(start, 1), len(tokens)):
            token, context = tokens[end], 0
            for order in range(1, min(self._ngram_max, end) + 1):
                context |= tokens[end - order] << (_TOKEN_BITS * (order - 1))
                self._count(order, context, token)

    def _count(self, order: int, context: int, token: int) -> None:
        counts, followed = self._counts[order], self._followed[order]
        key = context << _TOKEN_BITS | token
        count = counts[key] = counts.get(key, 0) + 1
        followed[context] = followed.get(context, 0) + 1
        likeliest = self._likeliest[order]
        best = likeliest.get(context)
        if best is None or count >= counts[context << _TOKEN_BITS | best]:  # the latest of equals
            likeliest[context] = token

    def _continue(self, limit: int) -> Proposal:
        recent = self._tokens[-self._ngram_max :]
        tokens: list[int] = []
        confidences: list[float] = []
        while len(tokens) < limit:
            token, confidence = self._next(recent)
            if token is None or confidence < self._p_min:
                break
            tokens.append(token)
            confidences.append(confidence)
            recent = [*recent, token][-self._ngram_max :]
        return Proposal(tokens, confidences)

    def _next(self, recent: list[int]) -> tuple[int | None, float]:
        contexts = [0]
        for order, token in enumerate(reversed(recent)):
            contexts.append(contexts[-1] | token << (_TOKEN_BITS * order))
            if contexts[-1] not in self._followed[order + 1]:
                contexts.pop()
                break
        longest = len(contexts) - 1
        if longest < self._ngram_min:
            return None, 0.0
        token = self._likeliest[longest][contexts[longest]]
        confidence = 0.0
        for order in range(1, longest + 1):
            context = contexts[order]
            unseen = unseen_cases(order)
            count = self._counts[order].get(context << _TOKEN_BITS | token, 0)
            confidence = (count + unseen * confidence) / (self._followed[order][context] + unseen)
        return token, confidence
