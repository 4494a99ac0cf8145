"""From the keyword arguments of one generation to checked options: every name must mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from verispec.drafting.contract import Drafter
from verispec.drafting.requirements import TargetFacts
from verispec.drafting.resolution import Resolution, resolve, resolve_given
from verispec.engine.options import (
    MAX_ALTERNATIVES,
    GenerationLimits,
    SamplingParameters,
    check_integer,
    check_number,
)
from verispec.errors import OptionError
from verispec.text.grammar import Grammar
from verispec.text.grammar_matcher import GrammarMatcher

DEFAULT_SPEC_MODE = "auto"
DEFAULT_DRAFTER_DEADLINE = 1.0
MAX_DRAFTER_DEADLINE = 1e9

_SAMPLING = frozenset(SamplingParameters.__slots__)
_LIMITS = frozenset(GenerationLimits.__slots__)
_RUNTIME = ("grammar", "prompt_logprobs", "spec_mode", "strict_drafter", "drafter_deadline")


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Everything one generation was asked to do, resolved. ``drafter_deadline`` is in seconds."""

    sampling: SamplingParameters
    limits: GenerationLimits
    resolution: Resolution
    strict_drafter: bool
    drafter_deadline: float
    prompt_logprobs: int | None = None
    """Alternatives to report beside the log-probability of each prompt token; None scores no prompt."""
    grammar: Grammar | None = None
    """What the answer must match."""

    @classmethod
    def parse(cls, given: Mapping[str, Any], target: TargetFacts) -> RequestOptions:
        """Raises OptionError for a name nobody reads or a bad value, UnsupportedError for what cannot run here."""
        options = {name: value for name, value in given.items() if value is not None}
        sampling = SamplingParameters(**{name: options.pop(name) for name in _SAMPLING & options.keys()})
        if "stop" in options:
            options["stop"] = _stops(options["stop"])
        if "shown_tokens" in options:
            options["shown_tokens"] = tuple(options["shown_tokens"])
        prompt_logprobs = options.pop("prompt_logprobs", None)
        if prompt_logprobs is not None:
            check_integer("prompt_logprobs", prompt_logprobs, 0, MAX_ALTERNATIVES)
        elif options.get("max_tokens") == 0:
            raise OptionError("max_tokens: expected 1 or more unless prompt_logprobs are asked for, found 0")
        limits = GenerationLimits(**{name: options.pop(name) for name in _LIMITS & options.keys()})
        grammar = _grammar(options.pop("grammar", None))
        drafter = options.pop("drafter", None)
        if drafter is not None and not isinstance(drafter, Drafter):
            raise OptionError(f"drafter: expected a Drafter object, found {drafter!r}")
        if drafter is not None and not isinstance(getattr(drafter, "name", None), str):
            raise OptionError(f"drafter: expected one with a name, found {type(drafter).__name__} without")
        if drafter is not None:
            _check_taps(drafter, target)
        if drafter is not None and "spec_mode" in options:
            raise OptionError("spec_mode: not read beside a drafter of the caller's own")
        mode = options.pop("spec_mode", DEFAULT_SPEC_MODE)
        if not isinstance(mode, str) and not (
            isinstance(mode, (list, tuple)) and mode and all(isinstance(name, str) for name in mode)
        ):
            raise OptionError(f"spec_mode: expected the name of a strategy, or several, found {mode!r}")
        strict_given = "strict_drafter" in options or "drafter_deadline" in options
        strict = options.pop("strict_drafter", False)
        if not isinstance(strict, bool):
            raise OptionError(f"strict_drafter: expected true or false, found {strict!r}")
        deadline = options.pop("drafter_deadline", DEFAULT_DRAFTER_DEADLINE)
        check_number("drafter_deadline", deadline, 0.0, MAX_DRAFTER_DEADLINE)
        if not deadline:
            raise OptionError("drafter_deadline: expected seconds over 0, found 0")
        for name in options:
            if not name.startswith("spec_"):
                raise OptionError(_unknown(name))
        resolution = (
            resolve(mode, options, target) if drafter is None else resolve_given(drafter, options, target)
        )
        if strict_given and drafter is None and mode == "off":
            raise OptionError(
                "strict_drafter, drafter_deadline: not read by spec_mode off, which has no drafter"
            )
        return cls(sampling, limits, resolution, strict, float(deadline), prompt_logprobs, grammar)


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that has been checked: the prompt's token ids, its options, and the seed it was given or drew."""

    prompt: list[int]
    options: RequestOptions
    seed: int
    matcher: GrammarMatcher | None
    """The grammar at the beginning of the answer, for one request to open."""


def _check_taps(drafter: Drafter, target: TargetFacts) -> None:
    """Raises OptionError for hidden states that the target does not have."""
    taps = drafter.taps
    if not isinstance(taps, tuple) or any(type(tap) is not int or tap not in target.taps for tap in taps):
        raise OptionError(f"drafter: taps: expected a tuple of some of {tuple(target.taps)}, found {taps!r}")


def _grammar(given: object) -> Grammar | None:
    """A grammar, or one as a receipt stores it."""
    if given is None or isinstance(given, Grammar):
        return given
    if isinstance(given, Mapping):
        return Grammar.from_dict(given)
    raise OptionError(f"grammar: expected a Grammar, found {type(given).__name__}")


def _stops(given: object) -> tuple[str, ...]:
    """One stop string or several, as ``GenerationLimits`` holds and checks them."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, (list, tuple)):
        raise OptionError(f"stop: expected a string or a list of strings, found {given!r}")
    return tuple(given)


def _unknown(name: str) -> str:
    close = get_close_matches(name, [*_SAMPLING, *_LIMITS, *_RUNTIME], 1)
    return f"{name}: no such option" + (f"; did you mean {close[0]}?" if close else "")
