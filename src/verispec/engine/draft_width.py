"""How many proposed tokens a round evaluates. A width changes the speed of a request and never its text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from verispec.drafting.contract import Proposal


class WidthPolicy(ABC):
    """Decides, round by round, how much to draft and how much of the proposal to evaluate.

    A round asks ``request`` before it drafts and ``cut`` once there is a proposal, and tells ``record`` what
    it committed; a round without a proposal skips ``cut``. Decisions depend on these calls alone, not on any
    clock, so that the rounds of a receipt can be computed again.
    """

    name: str
    """As ``spec_draft_policy`` spells it."""

    def __init__(self, draft_max: int, draft_min: int = 0) -> None:
        self._draft_max = draft_max
        self._draft_min = draft_min

    @property
    def widest(self) -> int:
        """K: no round evaluates more proposed tokens."""
        return self._draft_max

    def request(self, context_length: int) -> int:
        """How many tokens to ask the drafter for, with ``context_length`` tokens committed."""
        return self.request_free(context_length)

    def request_free(self, context_length: int) -> int:
        """How many tokens to ask a drafter for that takes no time worth speaking of."""
        return self._draft_max if self._draft_max >= self._draft_min else 0

    def spared(self) -> None:  # noqa: B027 - a fixed width goes by no costs
        """What ``request`` had asked for in this round was not drafted after all."""

    def cut(self, proposal: Proposal, context_length: int) -> int:
        """How many tokens of the proposal to evaluate: 0, or ``spec_draft_min`` and more."""
        if len(proposal) < max(self._draft_min, 1):
            return 0
        return self._choose(proposal, context_length)

    def share_pass(self, rows: int, requests: int) -> None:  # noqa: B027 - a fixed width goes by no costs
        """Others bring ``rows`` rows to the next pass, which advances ``requests`` requests, this one included."""

    def spend(self, width: int, context_length: int) -> None:  # noqa: B027 - as above
        """``width`` tokens are evaluated in this round that nobody drafted."""

    @abstractmethod
    def _choose(self, proposal: Proposal, context_length: int) -> int:
        """The width for a proposal of at least one token and at least ``spec_draft_min``."""

    @abstractmethod
    def record(self, emitted: Sequence[int]) -> None:
        """Learn from a committed round: the accepted tokens, then the target's own correction or bonus."""

    @abstractmethod
    def checkpoint(self) -> object:
        """A mark of the state between two rounds."""

    @abstractmethod
    def restore(self, checkpoint: object) -> None:
        """Go back to a mark, in the middle of a round too."""


class FixedWidth(WidthPolicy):
    """Evaluates every token proposed, as long as ``spec_draft_min`` of them are."""

    name = "fixed"

    def _choose(self, proposal: Proposal, context_length: int) -> int:
        return min(len(proposal), self._draft_max)

    def record(self, emitted: Sequence[int]) -> None:
        """Nothing to learn."""

    def checkpoint(self) -> None:
        return None

    def restore(self, checkpoint: object) -> None:
        """Nothing to restore."""
