"""A place in an answer under a grammar: the library's matcher behind some tokens, and the ends of answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from verispec.errors import GrammarError
from verispec.text.tokenizer import Tokenizer

Words = npt.NDArray[np.uint32]

MAX_MESSAGE = 500
RENEWAL = 64
"""Tokens after which ``renew`` makes a mask for its own sake."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Which ids there are: those below ``known``, in masks of ``words`` words; ``ends`` end an answer."""

    ends: tuple[int, ...]
    known: int
    words: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, vocabulary: int) -> Ids:
        """The ids of a model with ids below ``vocabulary``."""
        ends = tuple(sorted(token for token in tokenizer.eos_ids if token < vocabulary))
        return cls(ends, min(vocabulary, tokenizer.vocabulary_size), (vocabulary + 31) // 32)


class GrammarState:
    """Goes forward only. ``copy`` is cheap: copies share the library's lexer, and with it what its bounds count.

    Every question raises GrammarError once a bound has been met.
    """

    def __init__(self, matcher: LLMatcher, ids: Ids, name: str) -> None:
        """``matcher`` has seen nothing. ``name`` is what errors call the grammar."""
        self._matcher = matcher
        self._ids = ids
        self._name = name
        self._ended = False
        self._unrenewed = RENEWAL
        self.taken = 0
        self._check()
        matcher.consume_tokens([])  # an empty text may be all there is
        self._check()

    def copy(self) -> GrammarState:
        """Another state at the same place."""
        other = object.__new__(GrammarState)
        other.__dict__.update(self.__dict__)
        other._matcher = self._matcher.deep_copy()
        return other

    @property
    def failed(self) -> bool:
        """Whether a bound has been met, so that the state is of no use."""
        return self._matcher.is_error()

    @property
    def finished(self) -> bool:
        """Whether nothing can follow but the end."""
        self._check()
        return self._ended or self._matcher.is_stopped()

    @property
    def accepting(self) -> bool:
        """Whether the text so far is complete."""
        accepting = self._ended or self._matcher.is_accepting()
        self._check()
        return accepting

    def allowed(self) -> Words:
        """The tokens that may come next: bit ``i % 32`` of word ``i // 32`` for token ``i``."""
        ids = self._ids
        words = np.zeros(ids.words, np.uint32)
        accepting = self.accepting
        if not self.finished:
            mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)[: ids.words]
            self._check()
            words[: len(mask)] = mask
            words[ids.known // 32 + 1 :] = 0
            if ids.known // 32 < ids.words:
                words[ids.known // 32] &= np.uint32((1 << ids.known % 32) - 1)
        for token in ids.ends:  # the library also takes one for the end of some rules
            bit = np.uint32(1 << token % 32)
            words[token // 32] = words[token // 32] | bit if accepting else words[token // 32] & ~bit
        if not words.any() and not self.finished:
            raise GrammarError(f"{self._name}: no token of the model can follow")
        return words

    def allows(self, token: int) -> bool:
        """Whether ``token`` may come next; much cheaper than the mask."""
        if token in self._ids.ends:
            return self.accepting
        if not 0 <= token < self._ids.known or self.finished:
            return False
        forced = self._matcher.compute_ff_tokens()
        allows = forced[0] == token if forced else self._matcher.validate_tokens([token]) == 1
        self._check()
        return allows

    def forced(self) -> list[int]:
        """The tokens that the library finds no choice about."""
        if self.finished:
            return []
        forced = self._matcher.compute_ff_tokens()
        self._check()
        return forced

    def take(self, token: int) -> None:
        """Takes in a token that is allowed."""
        if token in self._ids.ends:
            self._ended = True
        else:
            self._matcher.consume_token(token)
            self._check()
        self.taken += 1

    def renew(self) -> None:
        """To be called at every place of an answer: makes a mask at the first and then at least at each 64th.

        The library heeds its bound on lexer states, and renews what a step may cost, only where it makes a mask.
        """
        self._unrenewed += 1
        if self._unrenewed > RENEWAL and not self.finished and not self.forced():
            self._matcher.compute_bitmask()
            self._check()
            self._unrenewed = 0

    def _check(self) -> None:
        if self._matcher.is_error():
            message = self._matcher.get_error().removesuffix("\n<non-verbose/>").strip()
            raise GrammarError(f"{self._name}: {message[:MAX_MESSAGE]}")
