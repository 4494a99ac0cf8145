"""Draft width by measured cost: the width that promises the most tokens a second, zero included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verispec.drafting.contract import Proposal
from verispec.engine.draft_width import WidthPolicy
from verispec.engine.pass_cost import PassCost

_BUCKETS = 10
"""Confidences are told apart in tenths."""
_DEPTH_OF = (0, 1, 2, 2, 3, 3, 3, 3)
_DEEPEST = 4
_ALL_DEPTHS = 5
"""Positions 0, 1, 2-3, 4-7 and 8 on are counted apart, and once more together."""
_DECAY = 0.94
"""What a count keeps when the next one comes: about the last 16 decide."""
_TRUST = 4.0
"""Observations that a prior weighs."""
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

    The probability that a position is accepted once those before it were is counted online, per tenth of the
    drafter's confidence and per depth; counts fade, and lean on the drafter's own confidence while they are
    few. A proposal is compared with what the target wrote even where it was not evaluated, as far as the
    round's tokens reach. A width of zero therefore goes on learning at no cost, and comes back up by itself.

    Whatever the drafter does, the passes of a request take, by the cost table, at most 1.01 times those
    without speculation and one pass more: a round that could lose more than the credit left is narrowed until
    it cannot.
    """

    name = "adaptive"

    def __init__(self, cost: PassCost, draft_max: int, draft_min: int = 0) -> None:
        super().__init__(draft_max, draft_min)
        self._cost = cost
        self._hits = [0.0] * (_BUCKETS * (_ALL_DEPTHS + 1))
        self._trials = [0.0] * (_BUCKETS * (_ALL_DEPTHS + 1))
        self._credit: float | None = None  # seconds; None until the first round says what a pass costs
        self._context_length = 0
        self._choice: _Choice | None = None

    def request(self, context_length: int) -> int:
        self._context_length = context_length
        return super().request(context_length)

    def _choose(self, proposal: Proposal, context_length: int) -> int:
        costs = self._cost.row_costs(self._draft_max + 1, context_length)
        affordable = costs[0] + self._credit_at(costs)
        best, best_rate = 0, _MARGIN / costs[0]
        expected, survival = 1.0, 1.0
        for index, confidence in enumerate(proposal.confidences[: self._draft_max]):
            cost = costs[index + 1]
            survival *= self._acceptance(index, confidence)
            expected += survival
            if cost > affordable or survival < 0.005:
                break
            if expected > best_rate * cost and index + 1 >= self._draft_min:
                best, best_rate = index + 1, expected / cost
        self._choice = _Choice(proposal, best, costs)
        return best

    def record(self, emitted: Sequence[int]) -> None:
        width = 0
        if self._choice is not None:
            proposal, width, costs = self._choice
            self._choice = None
            self._compare(proposal, emitted)
        else:
            costs = self._cost.row_costs(self._draft_max + 1, self._context_length)
        won = len(emitted) * (1.0 + _ALLOWANCE) * costs[0] - costs[width]
        self._credit = min(self._credit_at(costs) + won, _CREDIT_LIMIT * costs[0])

    def checkpoint(self) -> object:
        return self._hits.copy(), self._trials.copy(), self._credit

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple):
            raise ValueError(f"draft width checkpoint: expected one this policy made, found {checkpoint!r}")
        hits, trials, self._credit = checkpoint
        self._hits, self._trials = hits.copy(), trials.copy()
        self._choice = None

    def _credit_at(self, costs: Sequence[float]) -> float:
        return _GRANT * costs[0] if self._credit is None else self._credit

    def _acceptance(self, index: int, confidence: float) -> float:
        """Probability that the token at ``index`` is accepted once those before it were."""
        bucket = _bucket(confidence)
        cell = bucket + _BUCKETS * _ALL_DEPTHS
        at_any_depth = (self._hits[cell] + _TRUST * confidence) / (self._trials[cell] + _TRUST)
        cell = bucket + _BUCKETS * _depth(index)
        return (self._hits[cell] + _TRUST * at_any_depth) / (self._trials[cell] + _TRUST)

    def _compare(self, proposal: Proposal, emitted: Sequence[int]) -> None:
        for index, written in enumerate(emitted[: len(proposal)]):
            accepted = proposal.tokens[index] == written
            bucket = _bucket(proposal.confidences[index])
            for depth in (_depth(index), _ALL_DEPTHS):
                cell = bucket + _BUCKETS * depth
                self._hits[cell] = self._hits[cell] * _DECAY + accepted
                self._trials[cell] = self._trials[cell] * _DECAY + 1.0
            if not accepted:
                break


def _bucket(confidence: float) -> int:
    return min(int(confidence * _BUCKETS), _BUCKETS - 1)


def _depth(index: int) -> int:
    return _DEPTH_OF[index] if index < len(_DEPTH_OF) else _DEEPEST
