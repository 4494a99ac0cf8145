"""From the lanes of two arms to a verdict. The always-valid interval decides; everything else describes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from verispec.lab.decision.balance import imbalances
from verispec.lab.decision.decision import Decision, percent
from verispec.lab.decision.lanes_needed import lanes_needed
from verispec.lab.decision.plan import UNKNOWN_NOISE, DecisionPlan
from verispec.lab.decision.verdict import Verdict, verdict_of
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.statistics.block_effects import BlockEffect, block_effects, shared_prompts
from verispec.lab.statistics.blocked_bootstrap import bootstrap_interval
from verispec.lab.statistics.equal_variances import vary_alike
from verispec.lab.statistics.evidence import Evidence, LaneNoise, combine, own_noise

OTHER_NOISE = 0.01
"""Below this p value of the F test the experiment's noise is not that of the bank, and the bank is left out."""


def decide(control: Sequence[LaneValues], candidate: Sequence[LaneValues], plan: DecisionPlan) -> Decision:
    """The verdict on ``candidate`` against ``control``, at whatever point the experiment stands.

    May be called after every block: looking often costs nothing. Lanes are compared only with lanes of their own block,
    prompt by prompt. Give valid lanes only; what is not valid goes through ``invalid``.
    """
    prompts = shared_prompts([*control, *candidate])
    blocks = block_effects(control, candidate, prompts) if prompts else []
    if not blocks:
        return invalid([_why_nothing_compares(control, candidate, prompts)])
    noise, reasons = _noise_in_use(blocks, plan)
    evidence = combine(blocks, noise)
    low, high = evidence.interval(plan.level)
    verdict = verdict_of(low, high, plan.log_margin)
    shrunken = _shrunken(evidence, plan)
    expected = evidence.effect if shrunken is None else shrunken
    needed = lanes_needed(evidence, expected, plan) if verdict is Verdict.CANNOT_TELL else None
    deviation = evidence.noise.deviation
    return Decision(
        verdict=verdict,
        reasons=(
            _explain(verdict, evidence, plan),
            *reasons,
            *imbalances(control, candidate),
            *_left_out(control, candidate, blocks, prompts),
        ),
        effect=evidence.effect,
        interval=(low, high),
        level=plan.level,
        e_value=evidence.e_value(),
        shrunken=shrunken,
        bootstrap=bootstrap_interval(blocks),
        lane_deviation=deviation if math.isfinite(deviation) else None,
        lanes_needed=needed,
        blocks=len(blocks),
        control_lanes=sum(block.control_lanes for block in blocks),
        candidate_lanes=sum(block.candidate_lanes for block in blocks),
        prompt_effects=_by_prompt(blocks, prompts),
    )


def invalid(reasons: Sequence[str]) -> Decision:
    """An experiment that says nothing about speed, and why: a failed gate, a crash, an identity that differs."""
    return Decision(Verdict.INVALID, tuple(reasons))


def _noise_in_use(blocks: Sequence[BlockEffect], plan: DecisionPlan) -> tuple[LaneNoise, list[str]]:
    """The plan's known noise, unless what the experiment itself shows contradicts it."""
    if not plan.noise.degrees:
        return UNKNOWN_NOISE, []
    own = own_noise(blocks)
    if not vary_alike(own.squares, own.degrees, plan.noise.squares, plan.noise.degrees, OTHER_NOISE):
        text = (
            f"the bank is left out: its lanes vary by {100 * plan.noise.deviation:.2f}%, "
            f"these by {100 * own.deviation:.2f}%"
        )
        return UNKNOWN_NOISE, [text]
    return plan.noise, [f"noise known from {plan.noise.degrees} degrees of freedom of past identical lanes"]


def _shrunken(evidence: Evidence, plan: DecisionPlan) -> float | None:
    if not evidence.noise.degrees:
        return None
    return plan.prior.shrink(evidence.effect, evidence.standard_error, evidence.noise.degrees)


def _by_prompt(blocks: Sequence[BlockEffect], prompts: Sequence[str]) -> dict[str, float]:
    """Each prompt's own log ratio over all blocks: which of them gained and which lost."""
    ratios = np.average(
        [block.by_prompt for block in blocks], axis=0, weights=[block.information for block in blocks]
    )
    return dict(zip(prompts, ratios.tolist(), strict=True))


def _explain(verdict: Verdict, evidence: Evidence, plan: DecisionPlan) -> str:
    low, high = evidence.interval(plan.level)
    if not evidence.noise.degrees:
        return "one block alone cannot show how much lanes vary"
    if not math.isfinite(high):
        return "too few blocks: at this level they rule nothing out yet"
    interval = f"{percent(low):+.2f}% to {percent(high):+.2f}% at level {1 - plan.level:.4g}"
    return {
        Verdict.NO_DIFFERENCE: f"{interval} lies within {100 * plan.margin:g}% either way",
        Verdict.IMPROVEMENT: f"{interval} lies above zero",
        Verdict.REGRESSION: f"{interval} lies below zero",
        Verdict.CANNOT_TELL: f"{interval} holds zero and reaches beyond {100 * plan.margin:g}%",
    }[verdict]


def _why_nothing_compares(
    control: Sequence[LaneValues], candidate: Sequence[LaneValues], prompts: Sequence[str]
) -> str:
    if not control or not candidate:
        missing = "control" if not control else "candidate"
        return f"no valid lane of the {missing}"
    return "no block holds lanes of both arms" if prompts else "the lanes share no prompt"


def _left_out(
    control: Sequence[LaneValues],
    candidate: Sequence[LaneValues],
    blocks: Sequence[BlockEffect],
    prompts: Sequence[str],
) -> list[str]:
    """Lanes and prompts that were given and are not in the comparison."""
    left = []
    used = {block.block for block in blocks}
    alone = sorted(lane.lane for lane in (*control, *candidate) if lane.block not in used)
    if alone:
        left.append(f"left out, their block holds one arm only: {', '.join(alone)}")
    asked = {one.prompt for lane in (*control, *candidate) for one in lane.values}
    if len(asked) > len(prompts):
        left.append(f"compared on the {len(prompts)} of {len(asked)} prompts that all lanes answered")
    return left
