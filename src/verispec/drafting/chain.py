"""Chains: several strategies in an order that was chosen, of which one a round proposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from verispec.drafting.contract import NOTHING, Drafter, Proposal


class ChainDrafter(Drafter):
    """The first drafter whose proposal begins with enough confidence wins the round; the last needs none but its own.

    Where none of them does, the first proposal that there was is taken. All of them follow the text all the time.
    """

    def __init__(self, drafters: Sequence[Drafter], costly: Sequence[bool], p_min: float) -> None:
        """``costly``: which of them take time, so that they are asked for no more than ``costly_limit``. ``p_min``:
        the confidence in its first token that lets a drafter before the last one win."""
        self.name = "+".join(drafter.name for drafter in drafters)
        self.taps = tuple(sorted({tap for drafter in drafters for tap in drafter.taps}))
        self.follows_text = any(drafter.follows_text for drafter in drafters)
        self.costly_limit: int | None = None
        """Tokens that are worth asking of a drafter that takes time; None: as many as of any."""
        self._members = list(zip(drafters, costly, strict=True))
        self._p_min = p_min

    def observe(self, tokens: Sequence[int]) -> None:
        for drafter, _ in self._members:
            drafter.observe(tokens)

    def absorb(
        self, first: int, tokens: Sequence[int], hidden: Mapping[int, npt.NDArray[np.float32]]
    ) -> None:
        for drafter, _ in self._members:
            if drafter.taps or drafter.follows_text:
                drafter.absorb(first, tokens, {tap: hidden[tap] for tap in drafter.taps})

    def settle(self) -> None:
        for drafter, _ in self._members:
            drafter.settle()

    def propose(self, limit: int) -> Proposal:
        proposal = self._first_sure(limit)
        self._count_declined()
        return proposal

    def _first_sure(self, limit: int) -> Proposal:
        best = NOTHING
        last = len(self._members) - 1
        for index, (drafter, costly) in enumerate(self._members):
            most = limit if not costly or self.costly_limit is None else min(limit, self.costly_limit)
            proposal = drafter.propose(most) if most > 0 else NOTHING
            if not proposal:
                continue
            proposal = replace(proposal, source=drafter.name)
            if index == last or proposal.confidences[0] >= self._p_min:
                return proposal
            best = best or proposal
        return best

    def _count_declined(self) -> None:
        counts: dict[str, int] = {}
        for drafter, _ in self._members:
            for reason, count in drafter.declined.items():
                counts[reason] = counts.get(reason, 0) + count
        self.declined = counts

    def is_costly(self, source: str) -> bool:
        """Whether a proposal of ``source`` took time."""
        return any(costly for drafter, costly in self._members if drafter.name == source)

    def checkpoint(self) -> tuple[object, ...]:
        return tuple(drafter.checkpoint() for drafter, _ in self._members)

    def restore(self, checkpoint: object) -> None:
        if not isinstance(checkpoint, tuple) or len(checkpoint) != len(self._members):
            raise ValueError(f"drafter checkpoint: expected one this drafter made, found {checkpoint!r}")
        for (drafter, _), mark in zip(self._members, checkpoint, strict=True):
            drafter.restore(mark)
        self._count_declined()

    def close(self) -> None:
        for drafter, _ in self._members:
            drafter.close()
