"""C2 in company: a request answers the same alone and beside any others, the prefix cache cold or warm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verispec.conformance.parity import Case, first_difference
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler
from verispec.engine.completion import Chunk, Completion
from verispec.engine.prompt import Prompt

Asked = tuple[Prompt, Mapping[str, Any]]
"""A prompt and the options of its generation."""


@dataclass(slots=True)
class CompanyReport:
    """``identical`` of ``cases`` answers were those of the same request alone."""

    cases: int = 0
    identical: int = 0
    first_differences: list[str] = field(default_factory=list)


def run_together(scheduler: Scheduler, requests: Sequence[Asked]) -> list[Completion]:
    """The answers to ``requests``, all queued at once. Raises the first error that ended one of them."""
    jobs = [Job(scheduler.model.prepare(prompt, options)) for prompt, options in requests]
    scheduler.submit(*jobs)
    ends: dict[Job, Completion] = {}
    while not scheduler.idle:
        for job, event in scheduler.step():
            if isinstance(event, Exception):
                raise event
            if not isinstance(event, Chunk):
                ends[job] = event
    return [ends[job] for job in jobs]


def compare_with_alone(
    scheduler: Scheduler,
    requests: Sequence[Asked],
    alone: Sequence[Completion],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CompanyReport:
    """Runs ``requests`` together twice, the second time over the prefixes that the first has left.

    ``alone`` are their answers without company; token ids, text, log-probabilities and finish reason are compared.
    """
    report = CompanyReport()
    for warm in (False, True):
        for index, found in enumerate(run_together(scheduler, requests)):
            reference = alone[index]
            case = Case(index, found.strategy, 0, found.seed, found.options.sampling.temperature)
            difference = first_difference(case, reference, found)
            report.cases += 1
            if difference is None and found.stop_string == reference.stop_string:
                report.identical += 1
            else:
                cache = "warm" if warm else "cold"
                asked = f"request {index} with {dict(requests[index][1])}"
                report.first_differences.append(f"{asked}, {cache} prefix cache: {difference}")
            progress(report.cases, 2 * len(requests))
    return report
