"""C2 on a real model: every strategy, width, seed and temperature must give the answer of ``off``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from verispec.engine.completion import Completion
from verispec.engine.model import Model
from verispec.engine.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Case:
    """One generation to compare with ``off`` under the same prompt and sampling."""

    prompt: int
    strategy: str
    width: int
    seed: int
    temperature: float
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a case first left the answer of ``off``; ``margin``: how far apart ``off`` held the two tokens' logits."""

    case: Case
    what: str
    position: int
    expected: str
    found: str
    margin: float | None


@dataclass(slots=True)
class ParityReport:
    """``identical`` of ``cases`` equal ``off``; one difference is listed for each that does not."""

    cases: int = 0
    identical: int = 0
    first_differences: list[Difference] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def running_strategies(model: Model) -> tuple[str, ...]:
    """Every strategy that proposes anything and runs on ``model`` without further files."""
    listed = model.capabilities()["strategies"]
    return tuple(
        one["name"] for one in listed if one["status"] == "available" and one["name"] not in ("off", "auto")
    )


def run_parity(
    model: Model,
    prompts: Sequence[Prompt],
    strategies: Iterable[str],
    widths: Iterable[int],
    seeds: Iterable[int],
    temperatures: Iterable[float],
    max_tokens: int,
    logprobs: int | None = None,
    sampling: dict[str, Any] | None = None,
    speculation: dict[str, Any] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ParityReport:
    """Generates every combination and compares token ids, text, logprobs and finish reason with ``off``.

    Every proposed token is evaluated (policy ``fixed``), so that the widths are met and the cases are the same whenever
    they run; an adaptive width would go by this machine's speed. ``sampling`` holds further sampling parameters, the
    same for every case, and ``speculation`` further options of the strategies, such as their artifact. Greedy cases run
    with one seed only: the seed cannot matter there.
    """
    report = ParityReport()
    variants = [(strategy, width) for strategy in strategies for width in widths]
    settings = list(_settings(seeds, temperatures))
    total = len(prompts) * len(settings) * len(variants)
    for index, prompt in enumerate(prompts):
        for temperature, seed in settings:
            options: dict[str, Any] = {**(sampling or {}), "temperature": temperature, "seed": seed}
            options |= {"max_tokens": max_tokens, "logprobs": logprobs}
            reference = model.generate(prompt, spec_mode="off", **options)
            for strategy, width in variants:
                case = Case(index, strategy, width, seed, temperature, logprobs)
                drafting = {"spec_mode": strategy, "spec_draft_max": width, "spec_draft_policy": "fixed"}
                found = model.generate(prompt, **drafting, **(speculation or {}), **options)
                _judge(report, model, case, reference, found)
                progress(report.cases, total)
    return report


def _settings(seeds: Iterable[int], temperatures: Iterable[float]) -> Iterator[tuple[float, int]]:
    listed = list(seeds)
    for temperature in temperatures:
        for seed in listed if temperature > 0 else listed[:1]:
            yield temperature, seed


def _judge(report: ParityReport, model: Model, case: Case, reference: Completion, found: Completion) -> None:
    report.cases += 1
    difference = first_difference(case, reference, found)
    if difference is None:
        report.identical += 1
        return
    if difference.what == "token":
        difference = _with_margin(model, difference, reference)
    report.first_differences.append(difference)


def first_difference(case: Case, reference: Completion, found: Completion) -> Difference | None:
    """The first thing in which two answers differ: a token, a log-probability, the text or the finish reason."""
    for position in range(max(len(reference.tokens), len(found.tokens))):
        expected, got = reference.tokens[position : position + 1], found.tokens[position : position + 1]
        if expected != got:
            return Difference(case, "token", position, _one(expected), _one(got), None)
    for position, (a, b) in enumerate(zip(reference.logprobs or (), found.logprobs or (), strict=True)):
        if a != b:
            return Difference(case, "logprob", position, repr(a), repr(b), None)
    if reference.text != found.text:
        same = next(
            (i for i, (a, b) in enumerate(zip(reference.text, found.text, strict=False)) if a != b),
            min(len(reference.text), len(found.text)),
        )
        return Difference(
            case, "text", same, repr(reference.text[same:][:20]), repr(found.text[same:][:20]), None
        )
    if reference.finish_reason != found.finish_reason:
        end = len(reference.tokens)
        return Difference(case, "finish_reason", end, reference.finish_reason, found.finish_reason, None)
    return None


def _one(tokens: Sequence[int]) -> str:
    return str(tokens[0]) if tokens else "end of answer"


def _with_margin(model: Model, difference: Difference, reference: Completion) -> Difference:
    """Looks up, target only, how close the two tokens' logits were where the answers part."""
    if not (difference.expected.isdigit() and difference.found.isdigit()):
        return difference
    logits = model.logits([*reference.prompt_tokens, *reference.tokens[: difference.position]])
    margin = float(logits[int(difference.expected)] - logits[int(difference.found)])
    return Difference(
        difference.case, "token", difference.position, difference.expected, difference.found, margin
    )
