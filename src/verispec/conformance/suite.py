"""The whole conformance suite: row invariance, schedule invariance and faults, against any backend adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from verispec.conformance.company import Asked, compare_with_alone
from verispec.conformance.faults import STEPS, resume_after_fault
from verispec.conformance.parity import Case, first_difference, run_parity, running_strategies
from verispec.conformance.row_invariance import run_row_invariance
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.model import Model
from verispec.errors import VerispecError

TEXT = (
    "The keeper lit the lamp, and the lamp lit the sea. The keeper lit the lamp again, and the lamp lit the sea "
    "again. Numbers: 1, 2, 3, 4, 5, 6, 7, 8. Numbers: 1, 2, 3, 4, 5, 6, 7, 8."
)
_Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Check:
    """One contract's outcome: ``passed`` of ``cases``; ``required`` is false where the backend does not promise it."""

    name: str
    cases: int
    passed: int
    required: bool
    differences: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.passed == self.cases


def run_conformance(
    model: Model, max_tokens: int = 48, progress: _Progress = lambda name, done, total: None
) -> list[Check]:
    """C1, C2 and the fault suite. A token-checked backend is measured on C1 and C2 and has to pass the faults."""
    exact = model.backend.capabilities.exactness == "exact"
    return [
        _rows(model, exact, progress),
        _schedules(model, exact, max_tokens, progress),
        _company(model, exact, max_tokens, progress),
        _faults(model, max_tokens, progress),
    ]


def _rows(model: Model, exact: bool, progress: _Progress) -> Check:
    tokens = model.tokenizer.encode(TEXT)
    widths = [*range(2, 17), len(tokens)]
    report = run_row_invariance(
        model.backend, tokens, widths, lambda done, total: progress("row invariance", done, total)
    )
    return Check("C1 row invariance", report.rows, report.identical, exact, tuple(report.first_differences))


def _schedules(model: Model, exact: bool, max_tokens: int, progress: _Progress) -> Check:
    cases = identical = 0
    differences: list[str] = []
    for logprobs in (None, 3):
        report = run_parity(
            model,
            [TEXT, TEXT[:60]],
            running_strategies(model),
            (1, 3, 7, 15),
            (0, 1),
            (0.0, 0.8),
            max_tokens,
            logprobs,
            progress=lambda done, total: progress("schedule invariance", done, total),
        )
        cases, identical = cases + report.cases, identical + report.identical
        differences += [str(asdict(difference)) for difference in report.first_differences]
    return Check("C2 schedule invariance", cases, identical, exact, tuple(differences))


def _company(model: Model, exact: bool, max_tokens: int, progress: _Progress) -> Check:
    """As many requests at once as the backend has sequences, over and over, of every strategy."""
    requests: list[Asked] = []
    for index, strategy in enumerate(("off", *running_strategies(model)) * 3):
        options: dict[str, Any] = {
            "spec_mode": strategy,
            "max_tokens": max_tokens // 2 + index,
            "seed": index,
        }
        options |= {"temperature": 0.8 * (index % 2), "logprobs": 2 if index % 3 == 0 else None}
        requests.append((TEXT[: 40 + 10 * index], options))
    alone = [model.generate(prompt, **options) for prompt, options in requests]
    scheduler = Scheduler(model, SchedulerLimits(parallel=model.backend.capabilities.sequences))
    report = compare_with_alone(
        scheduler, requests, alone, lambda done, total: progress("company", done, total)
    )
    name = "C2 in company"
    return Check(name, report.cases, report.identical, exact, tuple(report.first_differences))


def _faults(model: Model, max_tokens: int, progress: _Progress) -> Check:
    """A fault before and after each step, in the first, a middle and the last round."""
    options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": 0.7, "seed": 3, "logprobs": 2}
    strategy = "mtp" if "mtp" in running_strategies(model) else "prompt-lookup"
    options |= {"spec_mode": strategy, "spec_draft_max": 5, "spec_draft_policy": "fixed"}
    reference = model.generate(TEXT, **options)
    last = len(reference.rounds) - 1
    plan = [
        (step, index, after)
        for step in STEPS
        for index in sorted({0, last // 2, last})
        for after in (False, True)
    ]
    differences = []
    for done, (step, index, after) in enumerate(plan, 1):
        trace: object
        try:
            found = resume_after_fault(model.stream(TEXT, **options), step, index, after)
        except (VerispecError, AssertionError) as error:  # a backend that cannot go on is an outcome
            trace = error
        else:
            trace = first_difference(Case(0, strategy, 5, 3, 0.7, 2), reference, found)
            if trace is None and found.rounds != reference.rounds:
                trace = "other rounds"
        if trace is not None:
            differences.append(f"{'after' if after else 'before'} {step}, round {index}: {trace}")
        progress("faults", done, len(plan))
    return Check("faults", len(plan), len(plan) - len(differences), True, tuple(differences))
