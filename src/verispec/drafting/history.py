"""The part that every drafter learning from the request alone shares: its tokens, and exact going back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from verispec.drafting.contract import NOTHING, Drafter, Proposal


class HistoryDrafter(Drafter):
    """A drafter whose index is a function of the committed tokens.

    Observed tokens wait until the next ``propose`` before they are indexed. A checkpoint is therefore a
    length, and going back to the state before a round only cuts the list: tokens indexed by then were
    committed by then. An index that did run ahead of the checkpoint is built again, which is slower and just
    as exact.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._indexed = 0

    def observe(self, tokens: Sequence[int]) -> None:
        self._tokens.extend(tokens)

    def propose(self, limit: int) -> Proposal:
        if limit <= 0:
            return NOTHING
        if self._indexed < len(self._tokens):
            self._index(self._indexed)
            self._indexed = len(self._tokens)
        return self._continue(limit)

    def checkpoint(self) -> int:
        return len(self._tokens)

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, int) or not 0 <= checkpoint <= len(self._tokens):
            raise ValueError(
                f"drafter checkpoint: expected a length of at most {len(self._tokens)}, found {checkpoint!r}"
            )
        del self._tokens[checkpoint:]
        if self._indexed > checkpoint:
            self._clear()
            self._indexed = 0

    @abstractmethod
    def _index(self, start: int) -> None:
        """Index the tokens from ``start`` on."""

    @abstractmethod
    def _clear(self) -> None:
        """Empty the index."""

    @abstractmethod
    def _continue(self, limit: int) -> Proposal:
        """A proposal of at most ``limit`` (at least 1) tokens; everything observed is indexed."""
