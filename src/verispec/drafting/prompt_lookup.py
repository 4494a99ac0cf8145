"""Strategy ``prompt-lookup``: copy what followed the longest earlier occurrence of the context's last tokens.

Source of the idea: A. Saxena, "Prompt lookup decoding" (2023).
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from verispec.drafting.confidence import copy_confidence
from verispec.drafting.context_trie import ROOT, ContextTrie
from verispec.drafting.contract import NOTHING, Proposal
from verispec.drafting.history import HistoryDrafter

Choice = Literal["recent", "frequent"]
_CANDIDATES = 32
"""Occurrences looked at, the latest first: what bounds the time of a proposal."""
_LONGEST = 64
"""Tokens compared to tell a longer match from a shorter one."""


class PromptLookupDrafter(HistoryDrafter):
    """Copies the continuation of one earlier occurrence, verbatim.

    Occurrences share the last ``ngram_max`` tokens, or fewer down to ``ngram_min`` when nothing does. Of
    those the longest match wins, then the latest (``recent``) or the latest with the most frequent next token
    (``frequent``).
    """

    name = "prompt-lookup"

    def __init__(
        self, ngram_min: int = 1, ngram_max: int = 4, choice: Choice = "recent", p_min: float = 0.0
    ) -> None:
        super().__init__()
        self._ngram_min = ngram_min
        self._ngram_max = ngram_max
        self._choice = choice
        self._p_min = p_min
        self._clear()

    def _clear(self) -> None:
        self._trie = ContextTrie()
        self._contexts = [ROOT]
        self._places: list[list[int]] = [[]]  # by node: where its continuations start, in order

    def _index(self, start: int) -> None:
        places, longest = self._places, self._ngram_max
        for place, token in enumerate(self._tokens[start:], start):
            for node in self._contexts[self._ngram_min :]:
                places[node].append(place)
            children = self._trie.advance(self._contexts[:longest], token)
            while len(places) < len(self._trie):
                places.append([])
            self._contexts = [ROOT, *children]

    def _continue(self, limit: int) -> Proposal:
        for length in range(len(self._contexts) - 1, self._ngram_min - 1, -1):
            places = self._places[self._contexts[length]]
            if places:
                return self._copy(*self._choose(places[-_CANDIDATES:], length), limit)
        return NOTHING

    def _choose(self, ends: list[int], length: int) -> tuple[int, int]:
        """Where to copy from, and how many tokens before it equal the context's last ones."""
        matches = [(self._match_length(end, length), end) for end in ends]
        longest = max(matches)[0]
        ends = [end for match, end in matches if match == longest]
        if self._choice == "frequent" and len(ends) > 1:
            following = Counter(self._tokens[end] for end in ends)
            return max(ends, key=lambda end: (following[self._tokens[end]], end)), longest
        return ends[-1], longest

    def _match_length(self, end: int, length: int) -> int:
        tokens = self._tokens
        tip = len(tokens)
        longest = min(end, _LONGEST)
        while length < longest and tokens[end - 1 - length] == tokens[tip - 1 - length]:
            length += 1
        return length

    def _copy(self, start: int, match: int, limit: int) -> Proposal:
        copied = self._tokens[start : start + limit]
        period = len(self._tokens) - start
        while len(copied) < limit:  # the copy reached the context's end: the text is taken to repeat itself
            copied.append(copied[-period])
        confidences: list[float] = []
        for index in range(limit):
            confidence = copy_confidence(1, 1, match + index)
            if confidence < self._p_min:
                break
            confidences.append(confidence)
        return Proposal(copied[: len(confidences)], confidences)
