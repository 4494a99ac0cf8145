"""Strategy ``ngram-context``: online n-gram statistics of the request, with backoff, followed as a chain."""

from __future__ import annotations

from verispec.drafting.confidence import unseen_cases
from verispec.drafting.context_trie import ROOT, ContextTrie
from verispec.drafting.contract import Proposal
from verispec.drafting.history import HistoryDrafter


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
        self._unseen = [0.0, *(unseen_cases(length) for length in range(1, ngram_max + 1))]
        self._clear()

    def _clear(self) -> None:
        self._trie = ContextTrie()
        self._contexts = [ROOT]
        # By node: how often it occurred, how often something followed it, and the child that did most often.
        self._occurred = [0]
        self._followed = [0]
        self._likeliest = [ROOT]

    def _index(self, start: int) -> None:
        occurred, followed, likeliest = self._occurred, self._followed, self._likeliest
        for token in self._tokens[start:]:
            children = self._trie.advance(self._contexts, token)
            made = [0] * (len(self._trie) - len(occurred))
            occurred += made
            followed += made
            likeliest += made
            for node, child in zip(self._contexts, children, strict=True):
                occurred[child] += 1
                followed[node] += 1
                if occurred[child] >= occurred[likeliest[node]]:  # the latest of equals
                    likeliest[node] = child
            self._contexts = [ROOT, *children[: self._ngram_max]]

    def _continue(self, limit: int) -> Proposal:
        shorter, last_token = self._trie.shorter, self._trie.last_token
        tokens: list[int] = []
        confidences: list[float] = []
        length = len(self._contexts) - 1
        context = self._contexts[length]
        while len(tokens) < limit:
            while length and not self._followed[context]:
                context, length = shorter[context], length - 1
            if length < self._ngram_min:
                break
            child = self._likeliest[context]
            confidence = self._share(context, child, length)
            if confidence < self._p_min:
                break
            tokens.append(last_token[child])
            confidences.append(confidence)
            context, length = (child, length + 1) if length < self._ngram_max else (shorter[child], length)
        return Proposal(tokens, confidences)

    def _share(self, context: int, child: int, length: int) -> float:
        """Interpolated share of ``child`` among what followed ``context``, a context of ``length`` tokens."""
        occurred, followed, shorter = self._occurred, self._followed, self._trie.shorter
        share, weight = 0.0, 1.0
        while length:
            unseen = self._unseen[length]
            total = followed[context] + unseen
            share += weight * occurred[child] / total
            weight *= unseen / total
            context, child, length = shorter[context], shorter[child], length - 1
        return share
