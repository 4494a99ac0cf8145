"""Draft width by measured cost: the width that promises the most tokens a second, zero included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verispec.drafting.contract import NOTHING, Proposal
from verispec.engine.acceptance import AcceptanceEstimate
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
    it cannot.
    """

    name = "adaptive"

    def __init__(self, cost: PassCost, draft_max: int, draft_min: int = 0) -> None:
        super().__init__(draft_max, draft_min)
        self._cost = cost
        self._acceptance = AcceptanceEstimate()
        self._credit: float | None = None  # seconds; None until the first round says what a pass costs
        self._context_length = 0
        self._choice: _Choice | None = None

    @property
    def cost(self) -> PassCost:
        """What it goes by."""
        return self._cost

    def request(self, context_length: int) -> int:
        self._context_length = context_length
        return super().request(context_length)

    def share_pass(self, rows: int, requests: int) -> None:
        if isinstance(self._cost, SharedCost):
            self._cost.rows, self._cost.requests = rows, requests

    def spend(self, width: int, context_length: int) -> None:
        self._choice = _Choice(NOTHING, width, self._cost.row_costs(width + 1, context_length))

    def _choose(self, proposal: Proposal, context_length: int) -> int:
        costs = self._cost.row_costs(self._draft_max + 1, context_length)
        affordable = costs[0] + self._credit_at(costs)
        survivals = self._acceptance.survivals(proposal.confidences[: self._draft_max])
        best, best_rate, expected = 0, _MARGIN / costs[0], 1.0
        for width, survival in enumerate(survivals, 1):
            cost = costs[width]
            if cost > affordable:
                break
            expected += survival
            if expected > best_rate * cost and width >= self._draft_min:
                best, best_rate = width, expected / cost
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
        won = len(emitted) * (1.0 + _ALLOWANCE) * costs[0] - costs[width]
        self._credit = min(self._credit_at(costs) + won, _CREDIT_LIMIT * costs[0])

    def checkpoint(self) -> object:
        return self._acceptance.checkpoint(), self._credit

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"draft width checkpoint: expected one this policy made, found {checkpoint!r}")
        acceptance, self._credit = checkpoint
        self._acceptance.restore(acceptance)
        self._choice = None

    def _credit_at(self, costs: Sequence[float]) -> float:
        return _GRANT * costs[0] if self._credit is None else self._credit
