"""How likely proposed tokens are to be accepted, counted online from what the target went on to write."""

from __future__ import annotations

from collections.abc import Sequence

from verispec.drafting.contract import Proposal

_BUCKETS = 10
"""Confidences are told apart in tenths."""
_DEPTH_STARTS = (0, 1, 2, 4, 8)
"""Positions 0, 1, 2-3, 4-7 and 8 on are counted apart, and, before those in the tables, all together."""
_CELLS = _BUCKETS * (1 + len(_DEPTH_STARTS))
_ROW_OF = tuple(_BUCKETS * sum(start <= position for start in _DEPTH_STARTS) for position in range(64))
"""Where the counts of a position start."""
_DECAY = 0.94
"""What a count keeps when the next one comes: about the last 16 decide."""
_TRUST = 4.0
"""Observations that a prior weighs."""
_HOPELESS = 0.005
"""A position reached less often than this is not worth looking at."""

_UNKNOWN_CONFIDENCE = 0.5
"""What a drafter is taken for before it has proposed anything."""


class AcceptanceEstimate:
    """Counts, per tenth of the drafter's confidence and per depth, how often a position was accepted once
    those before it were.

    Counts fade. While those of a depth are few they lean on all depths together, and these on the confidence.
    """

    def __init__(self) -> None:
        self._hits = [0.0] * _CELLS
        self._trials = [0.0] * _CELLS

    def survivals(self, confidences: Sequence[float]) -> list[float]:
        """Estimated probability that the first 1, 2, ... tokens are all accepted, as far as there is hope."""
        hits, trials = self._hits, self._trials
        found = []
        survival = 1.0
        for row, confidence in zip(_ROW_OF, confidences, strict=False):
            bucket = _bucket(confidence)
            at_any_depth = (hits[bucket] + _TRUST * confidence) / (trials[bucket] + _TRUST)
            survival *= (hits[row + bucket] + _TRUST * at_any_depth) / (trials[row + bucket] + _TRUST)
            if survival < _HOPELESS:
                break
            found.append(survival)
        return found

    def compare(self, proposal: Proposal, written: Sequence[int]) -> None:
        """Count a proposal against the tokens the target wrote in its place, through the first difference."""
        hits, trials = self._hits, self._trials
        for row, proposed, confidence, token in zip(
            _ROW_OF, proposal.tokens, proposal.confidences, written, strict=False
        ):
            bucket = _bucket(confidence)
            for cell in (bucket, row + bucket):
                hits[cell] = hits[cell] * _DECAY + (proposed == token)
                trials[cell] = trials[cell] * _DECAY + 1.0
            if proposed != token:
                break

    def checkpoint(self) -> tuple[list[float], list[float]]:
        return self._hits.copy(), self._trials.copy()

    def restore(self, checkpoint: tuple[list[float], list[float]]) -> None:
        hits, trials = checkpoint
        self._hits, self._trials = hits.copy(), trials.copy()


class UsualConfidence:
    """How confident a drafter usually is at each depth: an average that fades, for asking it before it has drafted.

    A depth that no proposal has reached is taken for the one before it.
    """

    def __init__(self, depths: int) -> None:
        self._depths = depths
        # of the depths that were reached, each with how many it is of
        self._averages: list[tuple[float, int]] = []

    @property
    def values(self) -> list[float]:
        known = [average for average, _ in self._averages]
        return known + [known[-1] if known else _UNKNOWN_CONFIDENCE] * (self._depths - len(known))

    def note(self, confidences: Sequence[float]) -> None:
        """Takes in a proposal's; depths that it did not reach learn nothing."""
        for depth, confidence in enumerate(confidences[: self._depths]):
            if depth == len(self._averages):
                self._averages.append((self.values[depth], 1))
            average, count = self._averages[depth]
            weight = max(1.0 - _DECAY, 1.0 / (count + 1))
            self._averages[depth] = average + weight * (confidence - average), count + 1

    def checkpoint(self) -> list[tuple[float, int]]:
        return self._averages.copy()

    def restore(self, checkpoint: list[tuple[float, int]]) -> None:
        self._averages = checkpoint.copy()


def _bucket(confidence: float) -> int:
    return min(int(confidence * _BUCKETS), _BUCKETS - 1)
