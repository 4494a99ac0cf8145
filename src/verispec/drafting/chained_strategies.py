"""From the strategies of a chain to one strategy, which reads what any of them reads and needs what all need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from verispec.drafting import options as opt
from verispec.drafting.chain import ChainDrafter
from verispec.drafting.contract import Drafter
from verispec.drafting.sources import DraftSources
from verispec.drafting.strategies import BY_NAME, VOCABULARY, Part, Settings, Strategy
from verispec.errors import OptionError, UnsupportedError

Member = TypeVar("Member")

JOIN = "+"
MOST = 4


def chained(names: Sequence[str]) -> Strategy:
    """The strategy of a chain, asked in the order of ``names``.

    Raises OptionError for names that make no chain, UnsupportedError for two strategies that each need an artifact.
    """
    strategies = [_member(name) for name in names]
    if not 2 <= len(strategies) <= MOST or len(set(names)) < len(names):
        raise OptionError(
            f"spec_mode: expected 2 to {MOST} different strategies in a chain, found {list(names)!r}"
        )
    if sum(opt.DRAFT_MODEL in strategy.options for strategy in strategies) > 1:
        raise UnsupportedError(
            "one-draft-artifact",
            f"spec_mode {JOIN.join(names)}: expected one strategy with a draft artifact, found several",
            f"{opt.DRAFT_MODEL.name} names one artifact; leave one such strategy in the chain",
        )
    if sum(strategy.keeps_entries for strategy in strategies) > 1:
        raise UnsupportedError(
            "one-cache-of-entries",
            f"spec_mode {JOIN.join(names)}: expected one strategy that reads the target's hidden states, found several",
            "Leave one of them in the chain",
        )
    costly = [strategy for strategy in strategies if strategy.part is not None]
    costly.sort(
        key=lambda strategy: opt.DRAFT_MODEL not in strategy.options
    )  # what it costs is what that costs

    def make(settings: Settings, sources: DraftSources) -> Drafter:
        made = [strategy.make(_own(strategy, settings), sources) for strategy in strategies]
        drafters = [drafter for drafter in made if drafter is not None]
        p_min = settings[opt.CHAIN_P_MIN.name]
        return ChainDrafter(drafters, [strategy.part is not None for strategy in strategies], p_min)

    def part(settings: Settings, sources: DraftSources) -> Part:
        first = costly[0]
        assert first.part is not None
        return first.part(_own(first, settings), sources)

    return Strategy(
        name=JOIN.join(names),
        meaning=f"the first of {', '.join(names)} that is sure enough drafts",
        options=(*_united(strategy.options for strategy in strategies), opt.CHAIN_P_MIN),
        requirements=_united(strategy.requirements for strategy in strategies),
        make=make,
        part=part if costly else None,
        keeps_entries=any(strategy.keeps_entries for strategy in strategies),
    )


def _member(name: str) -> Strategy:
    strategy = BY_NAME.get(name)
    if strategy is None or strategy.name == "off":
        known = ", ".join(one for one in VOCABULARY if one not in ("off", "auto"))
        raise OptionError(f"spec_mode: expected a chain of {known}, found {name!r} in it")
    return strategy


def _own(strategy: Strategy, settings: Settings) -> Settings:
    names = {option.name for option in strategy.options}
    return {name: value for name, value in settings.items() if name in names}


def _united(groups: Iterable[Iterable[Member]]) -> tuple[Member, ...]:
    """Every member of the groups once, in order."""
    return tuple(dict.fromkeys(member for group in groups for member in group))
