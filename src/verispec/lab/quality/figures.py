"""Rates with the names of what they are: a peak is not a workload, and a steady rate is not one over whole requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from verispec.errors import OptionError

PEAK, REPRESENTATIVE = "peak", "representative"
STEADY, REQUEST_WIDE = "steady", "request-wide"
PROFILES = (PEAK, REPRESENTATIVE)


@dataclass(frozen=True, slots=True)
class RateFigure:
    """Tokens a second. ``profile`` is peak (what the engine can do on text that suits it) or representative (what it
    does on the workload). ``basis`` is steady (behind the first token, median over prompts) or request-wide (all tokens
    over all seconds from request to last token). ``workload`` is the SHA-256 of what was asked."""

    profile: str
    basis: str
    workload: str
    value: float

    def __post_init__(self) -> None:
        if self.profile not in PROFILES or self.basis not in (STEADY, REQUEST_WIDE):
            raise OptionError(f"rate: expected a known profile and basis, found {self.profile} {self.basis}")
        if (self.profile, self.basis) == (PEAK, REQUEST_WIDE):
            raise OptionError("rate: a peak is a steady rate; over whole requests only a workload has one")

    @property
    def label(self) -> str:
        return f"{self.profile} {self.basis}"

    def over(self, other: RateFigure) -> float:
        """This over ``other``. OptionError when they are rates of different things."""
        for what in ("profile", "basis", "workload"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                found = f"{self.label} ({mine[:16]}) and {other.label} ({theirs[:16]})"
                raise OptionError(f"rates: expected two of one {what}, found {found}")
        return self.value / other.value

    def record(self) -> dict[str, Any]:
        return asdict(self)


def steady_figure(profile: str, lane: Mapping[str, Any]) -> RateFigure | None:
    """The median rate of tokens 1 to 100 of a lane record; None when it has none."""
    rate = lane["summary"]["rate_1_100"]
    return None if rate is None else RateFigure(profile, STEADY, lane["suite"]["sha256"], rate["median"])


def request_wide_figure(lane: Mapping[str, Any]) -> RateFigure | None:
    """Tokens over seconds of all requests of a lane record."""
    rate = lane["summary"]["request_wide"]["rate"]
    return None if rate is None else RateFigure(REPRESENTATIVE, REQUEST_WIDE, lane["suite"]["sha256"], rate)
