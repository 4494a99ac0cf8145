"""Three clocks beside each other: what one of them says about a measurement is only believed when all agree."""

from __future__ import annotations

import time
from dataclasses import dataclass

TOLERANCE_NS = 250_000_000
"""How far wall clock and suspended time may drift from the monotonic clock within one answer."""


@dataclass(frozen=True, slots=True)
class Instant:
    """``monotonic`` measures; ``wall`` is set by people and networks; ``boot`` also runs while a machine sleeps."""

    monotonic: int
    wall: int
    boot: int


class Clocks:
    """The clocks of this machine, in nanoseconds."""

    def monotonic(self) -> int:
        return time.perf_counter_ns()

    def wall(self) -> int:
        return time.time_ns()

    def boot(self) -> int:
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        return self.monotonic() if clock is None else time.clock_gettime_ns(clock)

    def now(self) -> Instant:
        return Instant(self.monotonic(), self.wall(), self.boot())


def disagreement(began: Instant, ended: Instant) -> str | None:
    """What is wrong with the time between two instants; None when the clocks agree."""
    elapsed = ended.monotonic - began.monotonic
    if elapsed < 0:
        return "the monotonic clock ran backwards"
    for name, other in (("wall", ended.wall - began.wall), ("boot", ended.boot - began.boot)):
        if abs(other - elapsed) > TOLERANCE_NS:
            return f"{elapsed / 1e9:.3f} s by the monotonic clock, {other / 1e9:.3f} s by the {name} clock"
    return None
