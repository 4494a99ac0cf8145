"""From the keyword arguments of one generation to checked options: every name must mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from verispec.drafting.contract import Drafter
from verispec.drafting.requirements import TargetFacts
from verispec.drafting.resolution import Resolution, resolve, resolve_given
from verispec.engine.options import GenerationLimits, SamplingParameters, check_number
from verispec.errors import OptionError

DEFAULT_SPEC_MODE = "auto"
DEFAULT_DRAFTER_DEADLINE = 1.0
MAX_DRAFTER_DEADLINE = 1e9

_SAMPLING = frozenset(SamplingParameters.__slots__)
_LIMITS = frozenset(GenerationLimits.__slots__)
_RUNTIME = ("spec_mode", "strict_drafter", "drafter_deadline")


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Everything one generation was asked to do, resolved. ``drafter_deadline`` is in seconds."""

    sampling: SamplingParameters
    limits: GenerationLimits
    resolution: Resolution
    strict_drafter: bool
    drafter_deadline: float

    @classmethod
    def parse(cls, given: Mapping[str, Any], target: TargetFacts) -> RequestOptions:
        """Raises OptionError for a name nobody reads or a bad value, UnsupportedError for what cannot run here."""
        options = {name: value for name, value in given.items() if value is not None}
        sampling = SamplingParameters(**{name: options.pop(name) for name in _SAMPLING & options.keys()})
        if "stop" in options:
            options["stop"] = _stops(options["stop"])
        limits = GenerationLimits(**{name: options.pop(name) for name in _LIMITS & options.keys()})
        drafter = options.pop("drafter", None)
        if drafter is not None and not isinstance(drafter, Drafter):
            raise OptionError(f"drafter: expected a Drafter object, found {drafter!r}")
        if drafter is not None and not isinstance(getattr(drafter, "name", None), str):
            raise OptionError(f"drafter: expected one with a name, found {type(drafter).__name__} without")
        if drafter is not None and "spec_mode" in options:
            raise OptionError("spec_mode: not read beside a drafter of the caller's own")
        mode = options.pop("spec_mode", DEFAULT_SPEC_MODE)
        if not isinstance(mode, str):
            raise OptionError(f"spec_mode: expected the name of a strategy, found {mode!r}")
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
        return cls(sampling, limits, resolution, strict, float(deadline))


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
