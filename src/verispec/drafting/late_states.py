"""Hidden states that a head is shown in every round, and takes in when it is asked for a proposal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Hidden = npt.NDArray[np.float32]
MOST_WAITING = 16
"""Rows are written before they are more: those of a prompt at once, and read where they lie."""


class Waiting(NamedTuple):
    """Committed positions in a row, from ``first`` on. A value: a checkpoint that holds it stays as it was."""

    first: int
    tokens: tuple[int, ...]
    chunks: tuple[Hidden, ...]
    """``[rows, columns]`` float32 each, a row for a token; copies, since the target's next pass lies over them."""

    @property
    def end(self) -> int:
        """The position behind the last."""
        return self.first + len(self.tokens)


class LateStates:
    """Puts off what a head writes for committed positions.

    A head's pass over a few rows costs little more than over one, and most of that for reading its weights. A round in
    which it is not asked, since another drafter of a chain is sure or drafting does not seem worth it, then costs it
    next to nothing. What is written does not depend on when: a row's result is the same in a pass of any width.
    """

    def __init__(self, first: int, write: Callable[[int, Sequence[int], Hidden], None]) -> None:
        """``write(position, tokens, hidden)`` writes rows from ``position`` on; those before ``first`` are none."""
        self._write = write
        self._waiting = Waiting(first, (), ())

    def take(self, position: int, tokens: Sequence[int], hidden: Hidden) -> None:
        """The rows of ``tokens`` from ``position`` on; ``hidden`` may be written over behind this call."""
        if position != self._waiting.end:
            self.settle()
            self._waiting = Waiting(position, (), ())
        first, known, chunks = self._waiting
        if len(known) + len(tokens) < MOST_WAITING:
            self._waiting = Waiting(first, (*known, *tokens), (*chunks, hidden.copy()))
            return
        self.settle()
        self._write(position, tokens, hidden)
        self._waiting = Waiting(position + len(tokens), (), ())

    def settle(self) -> None:
        """Writes what is waiting."""
        first, tokens, chunks = self._waiting
        if tokens:
            self._write(first, tokens, chunks[0] if len(chunks) == 1 else np.concatenate(chunks))
            self._waiting = Waiting(self._waiting.end, (), ())

    def checkpoint(self) -> Waiting:
        return self._waiting

    def restore(self, checkpoint: Waiting) -> None:
        self._waiting = checkpoint
