"""How many more lanes "cannot tell" is away from an answer."""

from __future__ import annotations

from verispec.lab.decision.plan import DecisionPlan
from verispec.lab.decision.verdict import Verdict, verdict_of
from verispec.lab.statistics.evidence import Evidence
from verispec.lab.statistics.t_process import as_float, half_width

MOST_PAIRS = 1_000_000


def lanes_needed(evidence: Evidence, expected: float, plan: DecisionPlan) -> int | None:
    """More lanes, half of each arm, after which the interval decides when effect and noise stay as expected.

    ``expected`` is the log effect thought true (the shrunken estimate). Lanes come as pairs in blocks of their own:
    each adds 1/2 to the information and one degree of freedom. None: the noise is unknown yet, or no number that one could
    run is enough.
    """
    noise = evidence.noise
    if noise.degrees == 0 or noise.squares == 0:
        return None

    def decides(pairs: int) -> bool:
        degrees = noise.degrees + pairs
        squares = noise.squares * degrees / noise.degrees
        width = as_float(half_width(evidence.information + pairs / 2, squares, degrees, plan.level))
        return verdict_of(expected - width, expected + width, plan.log_margin) is not Verdict.CANNOT_TELL

    enough = 1
    while not decides(enough):
        enough *= 2
        if enough > MOST_PAIRS:
            return None
    low = enough // 2
    while enough - low > 1:
        middle = (low + enough) // 2
        low, enough = (low, middle) if decides(middle) else (middle, enough)
    return 2 * enough
