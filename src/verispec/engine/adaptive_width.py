"""Draft width by measured cost: the width that promises the most tokens a second, zero included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verispec.drafting.contract import NOTHING, Proposal
from verispec.engine.acceptance import AcceptanceEstimate, UsualConfidence
from verispec.engine.draft_width import WidthPolicy
from verispec.engine.pass_cost import PassCost
from verispec.engine.shared_cost import SharedCost

_MARGIN = 1.02
"""How much faster than no proposal a width must promise to be: below that, the table's own error decides."""
_ALLOWANCE = 0.005
"""Share of the time without speculation that may be lost to it."""
_GRANT = 1.0
"""Passes of one row that may be lost before any proposal has paid."""
_CREDIT_LIMIT = 8.0
"""Passes of one row that can be lost after any number has been won."""
_PROBE_EVERY = 16
"""Rounds after which a drafter that did not seem worth its time is asked for one token again, if there is credit."""


class _Choice(NamedTuple):
    proposal: Proposal
    width: int
    costs: Sequence[float]


class AdaptiveWidth(WidthPolicy):
    """Chooses the width w with the most expected tokens a second, E(w) / T(1 + w).

    A proposal is compared with what the target wrote even where it was not evaluated, as far as the round's
    tokens reach. A width of zero therefore goes on learning at no cost, and comes back up by itself.

    Whatever the drafter does, the passes of a request take, by the cost table, at most 1.005 times those
    without speculation and one pass more: a round that could lose more than the credit left is narrowed until
    it cannot. ``draft_seconds`` is what a drafter takes for each token it is asked for, on top of that, and
    ``block_seconds`` what it takes for any proposal at all: where they are not nothing, the number asked for is itself
    the one that promises most, by how confident the drafter usually is.
    """

    name = "adaptive"

    def __init__(
        self,
        cost: PassCost,
        draft_max: int,
        draft_min: int = 0,
        draft_seconds: float = 0.0,
        block_seconds: float = 0.0,
    ) -> None:
        super().__init__(draft_max, draft_min)
        self._cost = cost
        self.draft_seconds = draft_seconds
        self.block_seconds = block_seconds
        self._acceptance = AcceptanceEstimate()
        self._usual = UsualConfidence(draft_max)
        self._asked = 0
        self._unasked_rounds = 0
        self._credit: float | None = None  # seconds; None until the first round says what a pass costs
        self._context_length = 0
        self._choice: _Choice | None = None

    @property
    def cost(self) -> PassCost:
        """What it goes by."""
        return self._cost

    def request(self, context_length: int) -> int:
        self._context_length = context_length
        widest = super().request(context_length)
        costly = self.draft_seconds > 0 or self.block_seconds > 0
        self._asked = self._worth_asking(widest, context_length) if costly else widest
        return self._asked

    def _worth_asking(self, widest: int, context_length: int) -> int:
        """The number of tokens whose drafting and checking promise the most tokens a second."""
        costs = self._cost.row_costs(widest + 1, context_length)
        usual = self._usual.values[:widest]
        drafting = [self._drafting(width) for width in range(widest + 1)]
        affordable = costs[0] + self._credit_at(costs)
        best = self._best_width(costs, usual, affordable, drafting)
        if best or self._unasked_rounds < _PROBE_EVERY:
            return best
        # what could not be checked afterwards is not worth its drafting either
        least = max(1, self._draft_min)
        return least if least <= widest and costs[least] + drafting[least] <= affordable else 0

    def _drafting(self, width: int) -> float:
        """Seconds that the drafter takes for ``width`` tokens."""
        return self.block_seconds + width * self.draft_seconds if width else 0.0

    def _best_width(
        self,
        costs: Sequence[float],
        confidences: Sequence[float],
        affordable: float,
        drafting: Sequence[float] = (),
    ) -> int:
        """The width with the most expected tokens a second; 0 where none beats a pass alone. ``drafting``: seconds of
        drafting by width, where they are still to be spent."""
        best, best_rate, expected = 0, _MARGIN / costs[0], 1.0
        for width, survival in enumerate(self._acceptance.survivals(confidences), 1):
            cost = costs[width] + (drafting[width] if drafting else 0.0)
            if cost > affordable:
                break
            expected += survival
            if expected > best_rate * cost and width >= self._draft_min:
                best, best_rate = width, expected / cost
        return best

    def spared(self) -> None:
        self._asked = 0

    def share_pass(self, rows: int, requests: int) -> None:
        if isinstance(self._cost, SharedCost):
            self._cost.rows, self._cost.requests = rows, requests

    def spend(self, width: int, context_length: int) -> None:
        self._choice = _Choice(NOTHING, width, self._cost.row_costs(width + 1, context_length))

    def _choose(self, proposal: Proposal, context_length: int) -> int:
        costs = self._cost.row_costs(self._draft_max + 1, context_length)
        affordable = costs[0] + self._credit_at(costs)
        best = self._best_width(costs, proposal.confidences[: self._draft_max], affordable)
        self._usual.note(proposal.confidences)
        self._choice = _Choice(proposal, best, costs)
        return best

    def record(self, emitted: Sequence[int]) -> None:
        width = 0
        if self._choice is not None:
            proposal, width, costs = self._choice
            self._choice = None
            self._acceptance.compare(proposal, emitted)
        else:
            costs = self._cost.row_costs(1, self._context_length)
        won = len(emitted) * (1.0 + _ALLOWANCE) * costs[0] - costs[width] - self._drafting(self._asked)
        self._unasked_rounds = 0 if self._asked else self._unasked_rounds + 1
        self._asked = 0
        self._credit = min(self._credit_at(costs) + won, _CREDIT_LIMIT * costs[0])

    def checkpoint(self) -> object:
        return self._acceptance.checkpoint(), self._credit, self._usual.checkpoint(), self._unasked_rounds

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"draft width checkpoint: expected one this policy made, found {checkpoint!r}")
        acceptance, self._credit, usual, self._unasked_rounds = checkpoint
        self._usual.restore(usual)
        self._asked = 0
        self._acceptance.restore(acceptance)
        self._choice = None

    def _credit_at(self, costs: Sequence[float]) -> float:
        return _GRANT * costs[0] if self._credit is None else self._credit
