"""Which replica gets a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from verispec.serving.replicas.prefix_key import Wanted
from verispec.serving.replicas.prefix_table import PrefixTable


@dataclass(slots=True)
class Load:
    """``answers`` that a replica has to write now, those in its queue included; ``chosen``: when it was chosen last."""

    answers: int = 0
    chosen: int = 0


@dataclass(slots=True)
class Balance:
    """The rule, and what it needs to know. ``seats``: answers that one replica writes at the same time.

    1. A replica whose seats are all taken is overloaded. It is not chosen, however good its prefix, while another
       has a free seat; when none has, those with the fewest answers are left.
    2. Of the rest it is the one that was given most of the prompt's leading blocks before, if that is at least half of
       them: fewer save less than an even load does.
    3. Otherwise, and among equals, the one with the fewest answers, then the one chosen longest ago.
    """

    seats: int
    table: PrefixTable = field(default_factory=PrefixTable)
    loads: dict[int, Load] = field(default_factory=dict)
    choices: Counter[tuple[int, str]] = field(default_factory=Counter)
    """How often each replica was chosen, for its ``prefix`` or by ``load``."""
    _clock: int = 0

    def choose(self, wanted: Wanted, among: Collection[int]) -> int:
        """One of the replicas ``among``, at least one. The request's answers are its own until ``end``."""
        loads = {one: self.loads.setdefault(one, Load()) for one in sorted(among)}
        fewest = min(load.answers for load in loads.values())
        open_ones = [one for one, load in loads.items() if load.answers < max(self.seats, fewest + 1)]
        known = self.table.match(wanted.blocks)
        worth = {one: blocks for one, blocks in known.items() if 2 * blocks >= len(wanted.blocks)}
        chosen = min(
            open_ones, key=lambda one: (-worth.get(one, 0), loads[one].answers, loads[one].chosen, one)
        )
        self._clock += 1
        loads[chosen].chosen = self._clock
        loads[chosen].answers += wanted.answers
        self.table.note(wanted.blocks, chosen)
        self.choices[chosen, "prefix" if chosen in worth else "load"] += 1
        return chosen

    def end(self, replica: int, wanted: Wanted) -> None:
        """The answers of a request that was given to it are over, however they ended."""
        self.loads[replica].answers -= wanted.answers
