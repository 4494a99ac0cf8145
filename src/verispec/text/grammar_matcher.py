"""A grammar as a participant of the round: which tokens may follow, with exact checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from verispec.errors import GrammarError
from verispec.text.tokenizer import Tokenizer

Words = npt.NDArray[np.uint32]

MAX_MESSAGE = 500


class GrammarMatcher:
    """``Grammar.matcher`` makes it. What it allows depends on the tokens accepted so far and on nothing else.

    A token is allowed when its bytes keep the text within the grammar. Where the grammar leaves no choice of text, it
    is the one token that the tokeniser would write it with, so that such tokens may be proposed for free. End tokens
    are allowed exactly when the text so far is complete. Control tokens are never part of a text; only a Lark grammar
    that names one (``<|name|>``) allows it. Ids that the tokeniser does not have are never allowed.

    Raises GrammarError when the grammar turns out to be too large to follow. Used by one thread at a time.
    """

    def __init__(
        self, begin: Callable[[], LLMatcher], tokenizer: Tokenizer, vocabulary: int, name: str = "grammar"
    ) -> None:
        """``begin`` makes a matcher that has seen nothing. ``name`` is what errors call the grammar."""
        self._begin = begin
        self._name = name
        self._ends = sorted(token for token in tokenizer.eos_ids if token < vocabulary)
        self._known = min(vocabulary, tokenizer.vocabulary_size)
        self._words = (vocabulary + 31) // 32
        self._tokens: list[int] = []  # accepted, without end tokens
        self._ended = 0  # end tokens accepted behind them
        self._allowed: Words | None = None
        self._matcher = self._replayed()

    @property
    def finished(self) -> bool:
        """Whether nothing can follow but the end."""
        self._check()
        return self._ended > 0 or self._matcher.is_stopped()

    @property
    def accepting(self) -> bool:
        """Whether the text so far is complete."""
        accepting = self._ended > 0 or self._matcher.is_accepting()
        self._check()
        return accepting

    def allowed(self) -> Words:
        """The tokens that may come next: bit ``i % 32`` of word ``i // 32`` for token ``i``, read-only."""
        if self._allowed is None:
            self._allowed = self._computed()
            self._allowed.flags.writeable = False
        return self._allowed

    def _computed(self) -> Words:
        words = np.zeros(self._words, np.uint32)
        accepting = self.accepting
        if not self.finished:
            mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)[: self._words]
            self._check()
            words[: len(mask)] = mask
            words[self._known // 32 + 1 :] = 0
            if self._known // 32 < self._words:
                words[self._known // 32] &= np.uint32((1 << self._known % 32) - 1)
        for token in self._ends:  # the library also takes one for the end of some rules
            bit = np.uint32(1 << token % 32)
            words[token // 32] = words[token // 32] | bit if accepting else words[token // 32] & ~bit
        if not words.any() and not self.finished:
            raise GrammarError(f"{self._name}: no token of the model can follow")
        return words

    def allows(self, token: int) -> bool:
        """Whether ``token`` may come next; much cheaper than the mask."""
        if token in self._ends:
            return self.accepting
        if not 0 <= token < self._known or self.finished:
            return False
        forced = self._matcher.compute_ff_tokens()
        allows = forced[0] == token if forced else self._matcher.validate_tokens([token]) == 1
        self._check()
        return allows

    def accept(self, token: int) -> None:
        """Takes in the next token. Raises GrammarError, and takes nothing in, for one that is not allowed."""
        if not self.allows(token):
            raise GrammarError(
                f"{self._name}: token {token} is not allowed behind {len(self._tokens)} tokens"
            )
        self._allowed = None
        if token in self._ends:
            self._ended += 1
            return
        self._tokens.append(token)
        self._matcher.consume_token(token)
        self._check()

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` could be accepted one after another."""
        start, allowed = self.checkpoint(), self._allowed
        count = 0
        try:
            for token in tokens:
                if not self.allows(token):
                    break
                self.accept(token)
                count += 1
        except GrammarError:  # only ahead, where the answer may never go
            pass
        self.restore(start)
        self._allowed = allowed
        return count

    def forced(self) -> list[int]:
        """The tokens that the grammar leaves no choice but to write next, as far as that is certain."""
        if self.finished:
            return []
        forced = self._matcher.compute_ff_tokens()
        self._check()
        return forced[: self.legal_prefix(forced)]

    def checkpoint(self) -> int:
        """How many tokens have been accepted."""
        return len(self._tokens) + self._ended

    def restore(self, checkpoint: int) -> None:
        """Forgets all tokens but the first ``checkpoint``, an error that came of the others included."""
        if checkpoint == self.checkpoint() and not self._matcher.is_error():
            return
        self._allowed = None
        back = max(0, len(self._tokens) - checkpoint)
        self._ended = max(0, checkpoint - len(self._tokens))
        if back:
            del self._tokens[checkpoint:]
        # The library cannot go back over an error, nor in grammars with limits on tokens: begin again.
        if self._matcher.is_error() or (back and not self._matcher.rollback(back)):
            self._matcher = self._replayed()

    def _replayed(self) -> LLMatcher:
        self._matcher = self._begin()
        self._check()
        self._matcher.consume_tokens([])  # an empty text may be all there is
        for token in self._tokens:
            self._matcher.consume_token(token)
        self._check()
        return self._matcher

    def _check(self) -> None:
        if self._matcher.is_error():
            message = self._matcher.get_error().removesuffix("\n<non-verbose/>").strip()
            raise GrammarError(f"{self._name}: {message[:MAX_MESSAGE]}")
