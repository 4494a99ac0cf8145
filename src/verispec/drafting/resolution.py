"""From what was asked for to the strategy that runs: resolved before anything is loaded, failing closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from verispec.artifacts.draft_manifest import KINDS, read_draft_manifest
from verispec.artifacts.resolve import resolve_model
from verispec.drafting import options as opt
from verispec.drafting import requirements as req
from verispec.drafting.chained_strategies import JOIN, chained
from verispec.drafting.contract import Drafter
from verispec.drafting.requirements import TargetFacts
from verispec.drafting.sources import DraftSources
from verispec.drafting.strategies import (
    AUTO,
    AUTO_ORDER,
    BEFORE_ARTIFACT,
    BY_NAME,
    OFF,
    STRATEGIES,
    VOCABULARY,
    Strategy,
)
from verispec.errors import OptionError, UnsupportedError

_KNOWN = {option.name: option for strategy in STRATEGIES for option in strategy.options}
_KNOWN[opt.RECURRENT_SNAPSHOTS.name] = opt.RECURRENT_SNAPSHOTS
_KNOWN[opt.CHAIN_P_MIN.name] = opt.CHAIN_P_MIN


@dataclass(frozen=True, slots=True)
class Resolution:
    """What runs. ``settings`` holds every option the strategy reads; ``unread`` names explicit ones it does
    not, which only ``auto`` lets pass."""

    requested: str
    strategy: Strategy
    settings: Mapping[str, Any]
    unread: tuple[str, ...] = ()

    @property
    def is_chain(self) -> bool:
        return JOIN in self.strategy.name

    def make_drafter(self, sources: DraftSources) -> Drafter | None:
        """One request's drafter. Raises what opening a file that it reads raises."""
        return self.strategy.make(self.settings, sources)

    def as_dict(self) -> dict[str, Any]:
        """What a receipt and a report say about it."""
        return {
            "requested": self.requested,
            "strategy": self.strategy.name,
            "options": dict(self.settings),
            "unread": list(self.unread),
        }


def resolve(mode: str | Sequence[str], explicit: Mapping[str, object], target: TargetFacts) -> Resolution:
    """The strategy ``mode`` names, or the best available one for ``auto``, with its options. Several names, in a list
    or joined by ``+``, are a chain.

    ``explicit`` holds the ``spec_*`` options that were given, by name. Raises OptionError for a name or an
    option nobody knows, a value out of range, or an option that what runs does not read; UnsupportedError,
    with its reason code, for a strategy that cannot run.
    """
    given: Mapping[str, opt.Value] = {name: _known(name).check(value) for name, value in explicit.items()}
    if mode == AUTO:
        return _resolve_auto(given, target)
    names = mode.split(JOIN) if isinstance(mode, str) else list(mode)
    given = _with_own_draft(given, names, target)
    if len(names) > 1:
        return _resolve_one(chained(names), given, target)
    mode = names[0] if names else ""
    strategy = BY_NAME.get(mode)
    if strategy is None:
        raise OptionError(
            f"spec_mode: expected one of {', '.join(VOCABULARY)}, found {mode!r}{_hint(mode, VOCABULARY)}"
        )
    return _resolve_one(strategy, given, target)


def _resolve_one(strategy: Strategy, given: Mapping[str, opt.Value], target: TargetFacts) -> Resolution:
    mode = strategy.name
    reads = {option.name for option in strategy.options_on(target)}
    for name in given:
        if name not in reads:
            raise OptionError(
                f"{name}: not read by spec_mode {mode}, which reads {', '.join(sorted(reads)) or 'none'}"
            )
    settings = _settings(strategy, given, target)
    missing = strategy.missing(target, settings)
    if missing:
        first = missing[0]
        raise UnsupportedError(first.code, f"spec_mode {mode}: {first.message}", first.remedy)
    return Resolution(mode, strategy, settings)


def resolve_given(drafter: Drafter, explicit: Mapping[str, object], target: TargetFacts) -> Resolution:
    """The caller's own drafter as one request's strategy; it reads the width options and nothing else."""
    strategy = Strategy(
        drafter.name,
        "given by the caller",
        opt.WIDTH_OPTIONS,
        (req.CROPPABLE_CACHE,),
        lambda _, __: drafter,
    )
    return _resolve_one(
        strategy, {name: _known(name).check(value) for name, value in explicit.items()}, target
    )


def availability(
    target: TargetFacts, given: Mapping[str, opt.Value] = {}, refused: Mapping[str, req.Requirement] = {}
) -> list[dict[str, Any]]:
    """Every name of the vocabulary with its status on ``target``: for the capabilities command.

    ``given`` are options that every strategy would be asked for with, ``refused`` holds what is known to keep a
    strategy from running beside its own requirements. ``reason`` is the code of what is decisive and ``reasons`` holds
    all of them; both are empty for an available one.
    """
    rows = []
    for name in VOCABULARY:
        unmet = [refused[name]] if name in refused else []
        auto = name == AUTO and not unmet
        strategy = resolve(AUTO, given, target).strategy if auto else BY_NAME.get(name, OFF)
        defaults = {option.name: option.default for option in strategy.options}
        asked = _with_own_draft(given, strategy.name.split(JOIN), target)
        missing = strategy.missing(target, {**defaults, **asked}) + unmet
        meaning = f"picks {strategy.name}" if auto else strategy.meaning
        rows.append(
            {
                "name": name,
                "status": "unavailable" if missing else "available",
                "reason": missing[0].code if missing else "",
                "reasons": [requirement.code for requirement in missing],
                "detail": missing[0].message if missing else meaning,
                "remedy": " ".join(requirement.remedy for requirement in missing),
                "options": [option.name for option in strategy.options_on(target)],
            }
        )
    return rows


def _resolve_auto(given: Mapping[str, opt.Value], target: TargetFacts) -> Resolution:
    wanted = _with_own_draft(given, KINDS, target)
    defaults = {option.name: option.default for option in _KNOWN.values()}
    order = [*_with_artifact(wanted), *(BY_NAME[name] for name in AUTO_ORDER)]
    candidates = [one for one in order if not one.missing(target, {**defaults, **wanted})]
    names = ", ".join(candidate.name for candidate in candidates)
    for name in given:
        if not any(option.name == name for one in candidates for option in one.options_on(target)):
            raise OptionError(f"{name}: not read by any candidate of spec_mode auto, which are {names}")
    winner = candidates[0]
    reads = {option.name for option in winner.options_on(target)}
    settings = _settings(winner, {name: value for name, value in wanted.items() if name in reads}, target)
    return Resolution(AUTO, winner, settings, tuple(sorted(set(given) - reads)))


def _with_own_draft(
    given: Mapping[str, opt.Value], names: Sequence[str], target: TargetFacts
) -> Mapping[str, opt.Value]:
    """``given``, with the artifact that comes with the package if none is named and one of ``names`` drafts with it."""
    if not target.own_draft or opt.DRAFT_MODEL.name in given or not set(names) & set(KINDS):
        return given
    kind = read_draft_manifest(resolve_model(target.own_draft).path).kind
    return {**given, opt.DRAFT_MODEL.name: target.own_draft} if kind in names else given


def _with_artifact(given: Mapping[str, opt.Value]) -> list[Strategy]:
    """The strategies that draft with the artifact that was named, of its manifest's kind: what text repeats is cheaper
    and surer from its suffix, which is asked first. Raises what reading the manifest does."""
    name = given.get(opt.DRAFT_MODEL.name)
    if name is None:
        return []
    kind = read_draft_manifest(resolve_model(str(name)).path).kind
    return [chained((BEFORE_ARTIFACT, kind)), BY_NAME[kind]]


def _settings(strategy: Strategy, given: Mapping[str, opt.Value], target: TargetFacts) -> dict[str, Any]:
    settings: dict[str, Any] = {
        option.name: given.get(option.name, option.default) for option in strategy.options_on(target)
    }
    if opt.RECURRENT_SNAPSHOTS.name in settings:
        _bound_window(settings, given, target)
    if opt.DRAFT_MAX.name in settings:
        _bound_width(settings, given, target)
    _ordered(settings, opt.DRAFT_MIN, opt.DRAFT_MAX)
    _ordered(settings, opt.NGRAM_MIN, opt.NGRAM_MAX)
    return settings


def _bound_window(settings: dict[str, Any], given: Mapping[str, opt.Value], target: TargetFacts) -> None:
    """A window nobody chose is the loaded one; one that was chosen has to fit in it."""
    name = opt.RECURRENT_SNAPSHOTS.name
    if name not in given:
        settings[name] = target.window
    elif settings[name] > target.window:
        raise OptionError(
            f"{name}: expected at most {target.window}, the states the model was loaded with room for, "
            f"found {settings[name]}; load it with snapshots={settings[name]}"
        )


def _bound_width(settings: dict[str, Any], given: Mapping[str, opt.Value], target: TargetFacts) -> None:
    """A width nobody chose fits the target; one that was chosen has to. A recurrent target takes back any number of
    rows, but outside its window by a replay: nobody gets one without having asked for it."""
    name, most = opt.DRAFT_MAX.name, target.max_rows - 1
    if not target.recurrent:
        most = min(most, target.rollback)
    usual = min(most, max(1, settings[opt.RECURRENT_SNAPSHOTS.name])) if target.recurrent else most
    if name not in given and usual >= 1:
        settings[name] = min(settings[name], usual)
    elif most >= 1 and settings[name] > most:
        raise OptionError(
            f"{name}: expected at most {most}, what this target checks and takes back, found {settings[name]}"
        )


def _ordered(settings: Mapping[str, Any], low: opt.Option, high: opt.Option) -> None:
    if low.name in settings and settings[low.name] > settings[high.name]:
        raise OptionError(
            f"{low.name}: expected at most {high.name} = {settings[high.name]}, found {settings[low.name]}"
        )


def _known(name: str) -> opt.Option:
    option = _KNOWN.get(name)
    if option is None:
        raise OptionError(f"{name}: no such speculation option{_hint(name, ['spec_mode', *_KNOWN])}")
    return option


def _hint(name: str, known: Any) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
