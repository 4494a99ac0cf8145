"""The drafter as a participant of the round, behind a guard: whatever it does, the text cannot change."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from verispec.drafting.chain import ChainDrafter
from verispec.drafting.contract import NOTHING, Drafter, InvalidProposalError, Proposal, check_proposal
from verispec.engine.draft_width import WidthPolicy
from verispec.errors import DrafterFaultError

FAULTS_ALLOWED = 3


class DrafterMark(NamedTuple):
    """A checkpoint of drafter, width policy, what has been observed, and the bound."""

    drafter: object
    policy: object
    observed: int
    bound: int | None


class GuardedDrafter:
    """Bounds what a drafter may offer, discards what breaks its contract, and switches it off after three faults.

    ``drafter`` None proposes nothing. ``deadline`` is the seconds one call may take before its answer is thrown away;
    a drafter runs in the engine's own thread, so a call that never returns is not interrupted.
    """

    def __init__(
        self, drafter: Drafter | None, policy: WidthPolicy, vocabulary: int, strict: bool, deadline: float
    ) -> None:
        self.drafter = drafter
        # asked for once, like everything of the caller's
        self._taps = drafter.taps if drafter is not None else ()
        self.policy = policy
        self.vocabulary = vocabulary
        self.strict = strict
        self.deadline = deadline
        self.observed = 0
        self.bound: int | None = None
        """No proposal is longer: the guard behind a replay, for as long as the request lives."""
        self.expected_acceptance: float | None = None
        """Share of its proposed tokens that the manifest of its artifact says is accepted, where it has one."""
        self.faults: list[str] = []
        self._mark: object = None
        self._lost: str | None = None  # why the drafter could not go back to a committed state

    @property
    def active(self) -> bool:
        """Whether the drafter is still asked."""
        return self.drafter is not None and len(self.faults) < FAULTS_ALLOWED

    @property
    def drafting(self) -> bool:
        """Whether there can still be a proposal: a guard of 0 ends that too."""
        return self.active and self.bound != 0

    @property
    def widest(self) -> int:
        """Rows a pass may need for proposals."""
        if self.drafter is None:
            return 0
        return self.policy.widest if self.bound is None else min(self.policy.widest, self.bound)

    @property
    def taps(self) -> tuple[int, ...]:
        """The target's hidden states that the drafter reads."""
        return self._taps if self.drafting else ()

    @property
    def declined(self) -> dict[str, int]:
        """How often there was nothing that the drafter could propose at all, by reason."""
        return dict(self.drafter.declined) if self.drafter is not None else {}

    def propose(
        self, limit: int, tokens: Sequence[int], legal: Callable[[Sequence[int]], int] = len
    ) -> Proposal:
        """At most ``limit`` tokens to follow the committed ``tokens``, fewer as the width policy decides.

        ``legal`` says how many of a proposal's tokens the target could choose at all; the rest are not offered.

        The drafter is first shown every committed token that it has not seen. On any fault nothing is proposed, and
        the drafter stands where it stood before; under ``strict`` it raises DrafterFaultError. A failed restore cannot
        raise, so the next call does.
        """
        if self.strict and self._lost is not None:
            raise DrafterFaultError(f"drafter: {self._lost}")
        width = min(limit, self.widest, self._asked(len(tokens)))
        if width <= 0 or not self.active:
            return NOTHING
        assert self.drafter is not None
        started = time.perf_counter()
        try:
            self.drafter.observe(tokens[self.observed :])
            proposal = _copied(self.drafter.propose(width))
            check_proposal(proposal, width, self.vocabulary)
        except InvalidProposalError as error:
            return self._fault(str(error))
        except Exception as error:
            return self._fault(f"raised {_described(error)}")
        if time.perf_counter() - started > self.deadline:
            return self._fault(f"took longer than {self.deadline:g} s")
        self.observed = len(tokens)
        if isinstance(self.drafter, ChainDrafter) and not self.drafter.is_costly(proposal.source):
            self.policy.spared()
        proposal = proposal.first(legal(proposal.tokens))
        return proposal.first(self.policy.cut(proposal, len(tokens)))

    def _asked(self, context_length: int) -> int:
        """How many tokens the policy wants; of a chain's drafters, those that take time are asked for fewer."""
        asked = self.policy.request(context_length)
        if isinstance(self.drafter, ChainDrafter):
            self.drafter.costly_limit = asked
            return self.policy.request_free(context_length)
        return asked

    def record(self, emitted: Sequence[int]) -> None:
        """Tells the width policy what a round committed."""
        self.policy.record(emitted)

    def absorb(
        self, first: int, tokens: Sequence[int], hidden: Mapping[int, npt.NDArray[np.float32]]
    ) -> None:
        """Shows the drafter the hidden states of the committed rows from position ``first``; ``tokens`` are theirs and
        the one behind them. ``hidden`` may hold rows that were rejected, behind those.

        A drafter that fails here has missed positions for good, and is not asked again.
        """
        if self.drafter is None or not self.active or not (hidden or self.drafter.follows_text):
            return
        rows = len(tokens) - 1
        try:
            self.drafter.absorb(first, tokens, {tap: values[:rows] for tap, values in hidden.items()})
        except Exception as error:
            message = f"absorb raised {_described(error)}"
            self.faults.append(message)
            self.drafter = None
            if self.strict:
                raise DrafterFaultError(f"drafter: {message}") from error

    def settle(self) -> None:
        """Has the drafter write what it has put off. One that fails here is not asked again, and none of its cache is
        used. The round is over, so under ``strict`` the next proposal raises; behind the last one nothing does."""
        if self.drafter is None:
            return
        try:
            self.drafter.settle()
        except Exception as error:
            self._lost = f"settle raised {_described(error)}"
            self.faults.append(self._lost)
            self.drafter = None

    def checkpoint(self) -> DrafterMark:
        self._mark = self._taken_mark()
        return DrafterMark(self._mark, self.policy.checkpoint(), self.observed, self.bound)

    def restore(self, checkpoint: DrafterMark) -> None:
        self._mark, policy, self.observed, self.bound = checkpoint
        self.policy.restore(policy)
        self._rewind()

    def _taken_mark(self) -> object:
        if self.drafter is None:
            return None
        try:
            return self.drafter.checkpoint()
        except Exception as error:
            message = f"checkpoint raised {_described(error)}"
            self.faults.append(message)
            if self.strict:
                raise DrafterFaultError(f"drafter: {message}") from error
            self.drafter = None
            return None

    def _rewind(self) -> None:
        """Takes the drafter back to the last committed transaction; one that cannot go back is not asked again."""
        if self.drafter is None:
            return
        try:
            self.drafter.restore(self._mark)
        except Exception as error:
            self._lost = f"restore raised {_described(error)}"
            self.faults.append(self._lost)
            self.drafter = None

    def _fault(self, message: str) -> Proposal:
        self.faults.append(message)
        self._rewind()
        if self.strict:
            raise DrafterFaultError(f"drafter: {message}")
        return NOTHING


def _copied(proposal: Proposal) -> Proposal:
    """A proposal of the round's own: a drafter may keep what it returned, and change it."""
    confidences = [float(confidence) for confidence in proposal.confidences]
    return Proposal(list(proposal.tokens), confidences, str(proposal.source))


def _described(error: Exception) -> str:
    """The kind and message of an error of any origin, as text that a receipt can hold."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
