"""The target as a participant of the round: one sequence of a backend."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.backends.contract import BackendAdapter, Checkpoint
from verispec.engine.shared_pass import PassShare


class Target:
    """One sequence and its committed length."""

    def __init__(self, backend: BackendAdapter, sequence: int) -> None:
        self.backend = backend
        self.sequence = sequence
        self.context = backend.capabilities.context
        self.recurrent = backend.capabilities.recurrent
        self.max_rows = backend.capabilities.max_rows

    @property
    def length(self) -> int:
        """Committed positions. The backend alone keeps count: an interrupt cannot come between two counters."""
        return self.backend.length(self.sequence)

    def share(
        self, tokens: Sequence[int], outputs: int, want_logits: bool, taps: tuple[int, ...] = ()
    ) -> PassShare:
        """The rows of ``tokens`` behind the committed ones, for the next pass; the last ``outputs`` give outputs."""
        return PassShare(self.sequence, self.length, tokens, outputs, want_logits, taps)

    def commit(self, length: int) -> bool:
        """Keeps ``length`` positions. Where the state behind them was not kept (a rejection outside the rollback
        window) the sequence stays as it was before the pass, and False is returned: the tokens are still pending."""
        held = not self.recurrent or self.backend.holds(self.sequence, length)
        self.backend.commit(self.sequence, length if held else self.length)
        return held

    def checkpoint(self) -> Checkpoint:
        return self.backend.checkpoint(self.sequence)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.backend.restore(checkpoint)
