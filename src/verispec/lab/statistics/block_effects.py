"""What each block says of candidate against control: paired by prompt, on the log scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verispec.lab.evidence_rows import LaneValues
from verispec.lab.statistics.t_process import Floats


@dataclass(frozen=True, slots=True)
class BlockEffect:
    """One block: ``effect`` is the mean over prompts of log(candidate) - log(control).

    ``information`` is 1 / (1/control lanes + 1/candidate lanes); ``squares`` and ``degrees`` are what lanes of one arm
    differ by among themselves. ``by_prompt`` (prompts,) holds each prompt's own log ratio.
    """

    block: str
    effect: float
    information: float
    squares: float
    degrees: int
    by_prompt: Floats
    control_lanes: int
    candidate_lanes: int


def shared_prompts(lanes: Sequence[LaneValues]) -> tuple[str, ...]:
    """The prompts that every lane answered, in the order of the first."""
    if not lanes:
        return ()
    shared = set.intersection(*({one.prompt for one in lane.values} for lane in lanes))
    return tuple(one.prompt for one in lanes[0].values if one.prompt in shared)


def log_values(lane: LaneValues, prompts: Sequence[str]) -> Floats:
    """The lane's values of these prompts as logarithms, shape (prompts,)."""
    by_prompt = {one.prompt: one.value for one in lane.values}
    return np.log([by_prompt[prompt] for prompt in prompts])


def block_effects(
    control: Sequence[LaneValues], candidate: Sequence[LaneValues], prompts: Sequence[str]
) -> list[BlockEffect]:
    """One entry for every block that holds lanes of both arms, in the order in which blocks first appear."""
    arms: dict[str, tuple[list[Floats], list[Floats]]] = defaultdict(lambda: ([], []))
    for arm, lanes in enumerate((control, candidate)):
        for lane in lanes:
            arms[lane.block][arm].append(log_values(lane, prompts))
    return [_effect(block, np.stack(a), np.stack(b)) for block, (a, b) in arms.items() if a and b]


def _effect(block: str, control: Floats, candidate: Floats) -> BlockEffect:
    by_prompt = candidate.mean(axis=0) - control.mean(axis=0)
    within = [arm.mean(axis=1) for arm in (control, candidate)]
    return BlockEffect(
        block=block,
        effect=float(by_prompt.mean()),
        information=1 / (1 / len(control) + 1 / len(candidate)),
        squares=float(sum(np.square(lanes - lanes.mean()).sum() for lanes in within)),
        degrees=len(control) + len(candidate) - 2,
        by_prompt=by_prompt,
        control_lanes=len(control),
        candidate_lanes=len(candidate),
    )
