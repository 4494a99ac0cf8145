"""A grammar as a participant of the round: which tokens may follow, with exact checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from verispec.errors import GrammarError
from verispec.text.grammar_lookahead import GrammarLookahead
from verispec.text.grammar_state import GrammarState, Words


class _Accepted(NamedTuple):
    """A token, and what was asked about its place before it: single tokens, and then perhaps the mask."""

    token: int
    asked: tuple[int, ...]
    masked: bool


class GrammarMatcher:
    """``Grammar.matcher`` makes it. What it allows depends on the tokens accepted so far and on nothing else.

    A token is allowed when its bytes keep the text within the grammar. Where the grammar leaves no choice of text, it
    is the one token that the tokeniser would write it with, so that such tokens may be proposed for free. End tokens
    are allowed exactly when the text so far is complete. Control tokens are never part of a text; only a Lark grammar
    that names one (``<|name|>``) allows it. Ids that the tokeniser does not have are never allowed.

    Raises GrammarError when the grammar turns out to be too large to follow. The library counts what it has been asked
    towards that, and goes on counting it after going back. So questions about what may never be written go to another
    compiled grammar, and ``restore`` begins anew and asks again what was asked on the way to its place.

    Used by one thread at a time.
    """

    def __init__(
        self, begin: Callable[[], GrammarState], lookahead: GrammarLookahead, name: str = "grammar"
    ) -> None:
        """``begin`` compiles the grammar, for this answer alone. ``name`` is what errors call it."""
        self._begin = begin
        self._lookahead = lookahead
        self._name = name
        self._history: list[_Accepted] = []
        self._tokens: list[int] = []  # those of the history
        self._asked: dict[int, bool] = {}  # single tokens at this place, before its mask
        self._allowed: Words | None = None
        self._settled = (
            True  # false while state, lookahead and tokens may disagree: an interrupt leaves it so
        )
        self._state = begin()
        self._state.renew()

    @property
    def finished(self) -> bool:
        """Whether nothing can follow but the end."""
        return self._state.finished

    @property
    def accepting(self) -> bool:
        """Whether the text so far is complete."""
        return self._state.accepting

    def allowed(self) -> Words:
        """The tokens that may come next: bit ``i % 32`` of word ``i // 32`` for token ``i``, read-only."""
        if self._allowed is None:
            self._allowed = self._state.allowed()
            self._allowed.flags.writeable = False
        return self._allowed

    def allows(self, token: int) -> bool:
        """Whether ``token`` may come next; much cheaper than the mask, and nothing where it was asked before."""
        if self._allowed is not None:
            within = 0 <= token < 32 * len(self._allowed)
            return within and bool(int(self._allowed[token // 32]) >> token % 32 & 1)
        known = self._asked.get(token)
        if known is None:
            known = self._asked[token] = self._state.allows(token)
        return known

    def accept(self, token: int) -> None:
        """Takes in the next token. Raises GrammarError, and takes nothing in, for one that is not allowed."""
        if not self.allows(token):
            self.allowed()  # raises where it is a bound that refuses
            raise GrammarError(
                f"{self._name}: token {token} is not allowed behind {len(self._tokens)} tokens"
            )
        self._settled = False
        self._state.take(token)
        self._state.renew()
        self._history.append(_Accepted(token, tuple(self._asked), self._allowed is not None))
        self._tokens.append(token)
        self._leave()
        self._settled = True

    def _leave(self) -> None:
        self._asked = {}
        self._allowed = None

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` could be accepted one after another."""
        self._settled = False
        count = self._lookahead.legal_prefix(self._tokens, tokens)
        self._settled = True
        return count

    def forced(self) -> list[int]:
        """The tokens that the grammar leaves no choice but to write next, as far as that is certain."""
        self._settled = False
        forced = self._lookahead.forced(self._tokens)
        self._settled = True
        return forced

    def checkpoint(self) -> int:
        """How many tokens have been accepted."""
        return len(self._tokens)

    def restore(self, checkpoint: int) -> None:
        """Forgets all tokens but the first ``checkpoint``, an error that came of the others included.

        It takes as long as coming here did, and compiling.
        """
        if self._settled and checkpoint == self.checkpoint() and not self._state.failed:
            return
        self._settled = False
        del self._history[checkpoint:]
        del self._tokens[checkpoint:]
        self._leave()
        self._lookahead.restart()
        self._state = self._begin()
        self._state.renew()
        for token, asked, masked in self._history:
            for question in asked:
                self._state.allows(question)
            if masked:
                self._state.allowed()
            self._state.take(token)
            self._state.renew()
        self._settled = True
