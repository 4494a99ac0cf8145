"""Made-up lanes for tests of decisions: pairs in blocks of their own, with noise of known size."""

from __future__ import annotations

import math

import numpy as np

from verispec.lab.evidence_rows import LaneValues, PromptValue

PROMPTS = 12


def lane(arm: str, block: str, log_rates: np.ndarray, name: str = "") -> LaneValues:
    """One lane whose i-th prompt runs at exp(log_rates[i]) tokens per second."""
    values = tuple(
        PromptValue(f"p{place}", f"class{place % 6}", math.exp(rate)) for place, rate in enumerate(log_rates)
    )
    return LaneValues(name or f"{arm}-{block}", arm, block, "gpu0", 0, values)


def lane_pairs(
    blocks: int, effect: float, deviation: float = 0.0, seed: int = 0, prompts: int = PROMPTS
) -> tuple[list[LaneValues], list[LaneValues]]:
    """``blocks`` pairs: candidate faster by ``effect`` (log), each lane off by ``deviation`` (log) as a whole.

    Prompts differ by tens of percent and blocks by several, which must not matter.
    """
    draw = np.random.default_rng(seed)
    rates = math.log(90) + draw.normal(0, 0.3, prompts)
    control, candidate = [], []
    for number in range(blocks):
        weather = draw.normal(0, 0.1)
        noise = draw.normal(0, deviation, 2) if deviation else (0.0, 0.0)
        control.append(lane("control", f"b{number}", rates + weather + noise[0]))
        candidate.append(lane("candidate", f"b{number}", rates + weather + effect + noise[1]))
    return control, candidate
