"""One candidate against the control, on the lanes that its verdict comes from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verispec.lab.decision import decide
from verispec.lab.decision.decision import percent
from verispec.lab.decision.tail import tail_lanes
from verispec.lab.evidence_rows import LaneValues
from verispec.lab.experiment.spec import plan_of
from verispec.lab.metrics.summary import FACTORS
from verispec.lab.report.experiment_facts import ExperimentFacts
from verispec.lab.report.lane_facts import LaneFacts
from verispec.lab.report.power import Power, power_of
from verispec.lab.statistics.block_effects import block_effects, shared_prompts
from verispec.lab.statistics.two_factors import FactorEffect, two_factors

Record = Mapping[str, Any]
AUDITED = ("ttft", *FACTORS)


@dataclass(frozen=True, slots=True)
class PromptAudit:
    """One prompt in both arms: medians over the lanes. ``blocks`` are its changes in percent, one a block.

    ``rates`` (of the experiment's metric) and each of ``more`` are (control, candidate); ``slow`` says that it is among
    the slowest tenth of the candidate's prompts.
    """

    prompt: str
    kind: str
    rates: tuple[float | None, float | None]
    more: Mapping[str, tuple[float | None, float | None]]
    change_percent: float | None
    blocks: tuple[float, ...]
    slow: bool


@dataclass(frozen=True, slots=True)
class FactorChange:
    """One factor's change in percent, above zero faster; an end that is None is not ruled out."""

    name: str
    change_percent: float
    interval_percent: list[float | None]


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """``verdict`` is the decision as the ledger has it; ``decision`` the record it stands in, None before there is one.

    ``tail`` is the same kind of decision about the lanes' p10, ``factors`` the change of speed, tokens per pass and
    passes per second; None where there is nothing to compare.
    """

    arm: str
    metric: str
    verdict: Record
    decision: Record | None
    stage: str
    control: tuple[LaneFacts, ...]
    candidate: tuple[LaneFacts, ...]
    tail: Record | None
    factors: tuple[FactorChange, ...]
    prompts: tuple[PromptAudit, ...]
    power: Power | None


def candidate_facts(facts: ExperimentFacts, arm: str) -> CandidateFacts:
    """What there is to say of one candidate. Lanes that are not valid are in none of its numbers."""
    decision = facts.deciding(arm)
    control, candidate = _decided_on(facts, decision)
    metric = str(facts.begun["metric"])
    devices = len(facts.begun["devices"])
    return CandidateFacts(
        arm=arm,
        metric=metric,
        verdict=facts.verdict(arm),
        decision=decision,
        stage="" if decision is None else str(decision["stage"]),
        control=control,
        candidate=candidate,
        tail=None if decision is None else _tail(control, candidate, metric, decision),
        factors=_factors(control, candidate),
        prompts=_audit(control, candidate, metric, _by_prompt(decision)),
        power=None if decision is None else power_of(decision, facts.begun["stages"], devices),
    )


def _decided_on(
    facts: ExperimentFacts, decision: Record | None
) -> tuple[tuple[LaneFacts, ...], tuple[LaneFacts, ...]]:
    """The valid lanes of control and candidate that a decision names."""
    if decision is None:
        return (), ()
    lanes = {lane.digest: lane for lane in facts.lanes if lane.valid}
    control, candidate = (
        tuple(lanes[digest] for digest in decision[name] if digest in lanes)
        for name in ("control_lanes", "candidate_lanes")
    )
    return control, candidate


def _by_prompt(decision: Record | None) -> Mapping[str, float]:
    found: Mapping[str, float] = {} if decision is None else decision["decision"]["prompt_effects_percent"]
    return found


def _values(lanes: Sequence[LaneFacts], metric: str) -> list[LaneValues]:
    return [one for lane in lanes if (one := lane.values(metric)) is not None]


def _tail(
    control: Sequence[LaneFacts], candidate: Sequence[LaneFacts], metric: str, decision: Record
) -> Record | None:
    """The lanes' p10 judged as a promotion judges it: by their own noise, with the tail's margin."""
    plan = plan_of(
        {
            **decision["plan"],
            "margin": decision["plan"]["tail_margin"],
            "noise": {"squares": 0.0, "degrees": 0},
        }
    )
    first, second = (tail_lanes(_values(lanes, metric)) for lanes in (control, candidate))
    return decide(first, second, plan).as_dict() if first and second else None


def _factors(control: Sequence[LaneFacts], candidate: Sequence[LaneFacts]) -> tuple[FactorChange, ...]:
    """Empty where a server does not count passes, or no block holds both arms."""
    arms = [(_values(control, name), _values(candidate, name)) for name in FACTORS]
    (tokens, other_tokens), (seconds, other_seconds) = arms
    both = {lane.block for lane in tokens} & {lane.block for lane in other_tokens}
    if not both or not shared_prompts([lane for pair in arms for lanes in pair for lane in lanes]):
        return ()
    split = two_factors(tokens, other_tokens, seconds, other_seconds)
    return tuple(_change(one) for one in (split.speed, split.tokens_per_pass, split.passes_per_second))


def _change(effect: FactorEffect) -> FactorChange:
    ends = [percent(end) if math.isfinite(end) else None for end in (effect.low, effect.high)]
    return FactorChange(effect.name, percent(effect.effect), ends)


def _audit(
    control: Sequence[LaneFacts], candidate: Sequence[LaneFacts], metric: str, together: Mapping[str, float]
) -> tuple[PromptAudit, ...]:
    """The candidate's slowest prompt first; empty where an arm has no lane. ``together`` is each prompt's change in the
    decision, percent."""
    if not control or not candidate:
        return ()
    changes = _changes_by_block(_values(control, metric), _values(candidate, metric))
    kinds = {one.prompt: one.kind for lane in (*control, *candidate) for one in lane.prompts}
    rates = {prompt: _medians(control, candidate, prompt, metric) for prompt in kinds}
    known = [rate for _, rate in rates.values() if rate is not None]
    limit = float(np.quantile(known, 0.1)) if known else -math.inf
    found = [
        PromptAudit(
            prompt=prompt,
            kind=kind,
            rates=rates[prompt],
            more={name: _medians(control, candidate, prompt, name) for name in AUDITED},
            change_percent=together.get(prompt),
            blocks=changes.get(prompt, ()),
            slow=(rates[prompt][1] or math.inf) <= limit,
        )
        for prompt, kind in kinds.items()
    ]
    return tuple(sorted(found, key=lambda one: one.rates[1] or 0.0))


def _changes_by_block(
    control: Sequence[LaneValues], candidate: Sequence[LaneValues]
) -> dict[str, tuple[float, ...]]:
    """By prompt, its change in each block that holds both arms, in percent."""
    shared = shared_prompts([*control, *candidate]) if control and candidate else ()
    blocks = block_effects(control, candidate, shared) if shared else []
    return {
        prompt: tuple(percent(float(block.by_prompt[place])) for block in blocks)
        for place, prompt in enumerate(shared)
    }


def _medians(
    control: Sequence[LaneFacts], candidate: Sequence[LaneFacts], prompt: str, metric: str
) -> tuple[float | None, float | None]:
    first, second = (
        [
            value
            for lane in lanes
            for one in lane.prompts
            if one.prompt == prompt and (value := one.value(metric)) is not None
        ]
        for lanes in (control, candidate)
    )
    return (statistics.median(first) if first else None, statistics.median(second) if second else None)
