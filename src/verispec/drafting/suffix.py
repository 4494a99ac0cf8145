"""Strategy ``suffix``: a suffix automaton over prompt and output, and optionally over a corpus kept in a
file."""

from __future__ import annotations

from verispec._native import SuffixAutomaton
from verispec.drafting.contract import Proposal
from verispec.drafting.history import HistoryDrafter
from verispec.drafting.suffix_corpus import SuffixCorpus


class SuffixDrafter(HistoryDrafter):
    """Continues the longest suffix of the context that occurred before with what followed it most often.

    The corpus is asked when it may know a longer match than the request does; equal lengths go to the
    request. Confidence is the continuation's share of all continuations, held back after short matches.
    """

    name = "suffix"

    def __init__(self, min_match: int = 1, p_min: float = 0.0, corpus: SuffixCorpus | None = None) -> None:
        super().__init__()
        self._min_match = min_match
        self._p_min = p_min
        self._corpus = corpus
        self._automaton = SuffixAutomaton()

    def _index(self, start: int) -> None:
        self._automaton.extend(self._tokens[start:])

    def _clear(self) -> None:
        self._automaton = SuffixAutomaton()

    def _continue(self, limit: int) -> Proposal:
        tokens, confidences, match = self._automaton.propose(limit, self._min_match, self._p_min)
        if self._corpus is not None and match < self._corpus.longest_match:
            found = self._corpus.propose(self._tokens, limit, max(match + 1, self._min_match), self._p_min)
            if found:
                return found
        return Proposal(tokens, confidences)
