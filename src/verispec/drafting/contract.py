"""What every drafter promises the round: proposals are advice, and it observes committed tokens alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Proposal:
    """Tokens offered to follow the last committed token, best guess first.

    ``tokens[i]`` hangs below ``parents[i]``; ``confidences[i]`` in [0, 1] estimates the probability that the
    target accepts it once every ancestor of it was accepted.
    """

    tokens: Sequence[int] = ()
    confidences: Sequence[float] = ()
    source: str = ""
    """The strategy that it is from, where several take part."""

    @property
    def parents(self) -> Sequence[int]:
        """Index in ``tokens`` of each token's parent; -1 is the anchor. Today's proposals are chains."""
        return range(-1, len(self.tokens) - 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def first(self, width: int) -> Proposal:
        """The same proposal cut to its first ``width`` tokens."""
        if width >= len(self.tokens):
            return self
        if width <= 0:
            return NOTHING
        return Proposal(self.tokens[:width], self.confidences[:width], self.source)


NOTHING = Proposal()
"""No token offered."""

CONTEXT_LIMIT = "context-limit"
"""Why nothing is proposed: the text has grown beyond the positions that the drafter can be used at."""


class InvalidProposalError(ValueError):
    """A proposal that breaks the contract. The round discards it and counts a fault."""


def check_proposal(proposal: Proposal, limit: int, vocabulary_size: int) -> None:
    """Raise InvalidProposalError unless there are at most ``limit`` tokens, all inside the vocabulary."""
    tokens, confidences = proposal.tokens, proposal.confidences
    if len(tokens) > limit:
        raise InvalidProposalError(f"proposal: expected at most {limit} tokens, found {len(tokens)}")
    if len(confidences) != len(tokens):
        raise InvalidProposalError(
            f"proposal: expected {len(tokens)} confidences, one a token, found {len(confidences)}"
        )
    for index, token in enumerate(tokens):
        if type(token) is not int or not 0 <= token < vocabulary_size:
            raise InvalidProposalError(
                f"proposal: token {index}: expected an id in 0..{vocabulary_size - 1}, found {token!r}"
            )
    for index, confidence in enumerate(confidences):
        if not 0.0 <= confidence <= 1.0:
            raise InvalidProposalError(
                f"proposal: confidence {index}: expected a number in 0..1, found {confidence!r}"
            )


class Drafter(ABC):
    """One request's source of proposals.

    A drafter sees committed tokens alone (the prompt, then each commit), in order, through ``observe``. What
    it proposes is a function of those tokens and of nothing else: not of earlier proposals, nor of the clock.
    """

    name: str
    """The strategy this drafter implements, as written in the strategy vocabulary."""
    taps: tuple[int, ...] = ()
    """The target's hidden states that ``absorb`` is given; numbered as in ``ops.contract``."""
    follows_text: bool = False
    """Whether ``absorb`` is called without hidden states too, as the prompt is read."""
    declined: Mapping[str, int] = MappingProxyType({})
    """How often there was nothing that it could propose at all, by reason, in the rounds that were committed."""

    @abstractmethod
    def observe(self, tokens: Sequence[int]) -> None:
        """Append committed tokens; the last of them becomes the anchor."""

    def absorb(  # noqa: B027 - most drafters read tokens alone
        self, first: int, tokens: Sequence[int], hidden: Mapping[int, npt.NDArray[np.float32]]
    ) -> None:
        """Take in committed positions from ``first`` on with the target's hidden states, in order, the prompt included.

        ``hidden`` has an array ``[n, hidden_size]`` a tap, to be read during the call alone; ``tokens`` are the n that
        were evaluated and the one behind them, which is the anchor unless more of the prompt is to come.
        """

    def settle(self) -> None:  # noqa: B027 - most drafters put nothing off
        """Write what was put off: the drafter's cache is read by somebody else behind this call."""

    @abstractmethod
    def propose(self, limit: int) -> Proposal:
        """At most ``limit`` tokens to follow the anchor. Empty when nothing is worth offering."""

    @abstractmethod
    def checkpoint(self) -> object:
        """A mark of the present state, cheap to take every round; valid until an older one is restored."""

    @abstractmethod
    def restore(self, checkpoint: object) -> None:
        """Go back to a mark taken from this drafter: it then proposes as if it had seen no token since."""

    def close(self) -> None:  # noqa: B027 - most drafters hold nothing but memory
        """Release what the drafter holds. Calling it twice is harmless."""
