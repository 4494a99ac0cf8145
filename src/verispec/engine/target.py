"""The target as a participant of the round: one sequence of a backend."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.backends.contract import BackendAdapter, Checkpoint, Evaluation, chain


class Target:
    """One sequence, its committed length, and the passes spent on it."""

    def __init__(self, backend: BackendAdapter, sequence: int) -> None:
        self.backend = backend
        self.sequence = sequence
        self.context = backend.capabilities.context
        self.max_rows = backend.capabilities.max_rows

    @property
    def length(self) -> int:
        """Committed positions. The backend alone keeps count: an interrupt cannot come between two counters."""
        return self.backend.length(self.sequence)

    def evaluate(self, pending: Sequence[int], proposal: Sequence[int], want_logits: bool) -> Evaluation:
        """One pass over the committed tokens not yet evaluated (the anchor last) and the proposal behind them.

        Gives ``1 + len(proposal)`` output rows: what follows the anchor, then what follows each proposed token.
        """
        rows = chain(self.sequence, self.length, [*pending, *proposal])
        outputs = range(len(pending) - 1, len(rows))
        return self.backend.evaluate(rows, outputs, want_logits)

    def process_chunk(self, tokens: Sequence[int]) -> None:
        """Evaluates and commits prompt tokens whose outputs nobody needs."""
        self.backend.evaluate(chain(self.sequence, self.length, tokens), (), False)
        self.commit(self.length + len(tokens))

    def commit(self, length: int) -> None:
        self.backend.commit(self.sequence, length)

    def checkpoint(self) -> Checkpoint:
        return self.backend.checkpoint(self.sequence)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.backend.restore(checkpoint)
