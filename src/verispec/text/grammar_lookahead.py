"""What may come of a grammar further on, asked without a trace in the answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from verispec.errors import GrammarError
from verispec.text.grammar_state import GrammarState

KEPT = 4
"""Grammars of one tokeniser; a compiled one that has met its bounds holds up to some 40 MB."""


class CompiledGrammars:
    """The grammars last used for looking ahead, compiled; each is shared by all answers to it, of any thread.

    What one answer meets wears on the bounds of all that share a compiled grammar, so only proposals may come of it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, GrammarState] = OrderedDict()

    def get(self, key: Hashable, begin: Callable[[], GrammarState]) -> GrammarState:
        """The beginning of the grammar ``key``, to be copied; ``begin`` compiles it where it is not kept."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        kept = begin()
        kept.renew()
        with self._lock:
            self._kept[key] = kept
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return kept

    def forget(self, key: Hashable, worn: GrammarState) -> None:
        """Lets the next answer compile it anew."""
        with self._lock:
            if self._kept.get(key) is worn:
                del self._kept[key]


class GrammarLookahead:
    """Follows one answer. Where the bounds end it, nothing is proposed any more, and the answer goes on alone."""

    def __init__(self, beginning: GrammarState, worn: Callable[[], None]) -> None:
        """``beginning`` is copied. ``worn`` is called when it has met its bounds."""
        self._beginning = beginning
        self._worn = worn
        self._state: GrammarState | None = beginning.copy()

    def forced(self, answer: Sequence[int]) -> list[int]:
        """The tokens that the grammar leaves no choice but to write behind ``answer``, as far as that is certain."""
        state = self._behind(answer)
        try:
            forced = state.forced() if state is not None else []
        except GrammarError:
            return []
        return forced[: self.legal_prefix(answer, forced)]

    def legal_prefix(self, answer: Sequence[int], tokens: Sequence[int]) -> int:
        """How many of ``tokens`` could be accepted one after another behind ``answer``."""
        state = self._behind(answer)
        if state is None or not tokens:
            return 0
        ahead = state.copy()
        count = 0
        try:
            for token in tokens:
                if not ahead.allows(token):
                    break
                ahead.take(token)
                count += 1
        except GrammarError:  # only ahead, where the answer may never go
            pass
        return count

    def _behind(self, answer: Sequence[int]) -> GrammarState | None:
        if self._state is None:
            return None
        try:
            for token in answer[self._state.taken :]:
                self._state.take(token)
                self._state.renew()
        except GrammarError:
            self._state = None
            self._worn()
        return self._state

    def restart(self) -> None:
        """The answer has gone back."""
        if self._state is not None:
            self._state = self._beginning.copy()
