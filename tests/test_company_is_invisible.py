"""C2 in a crowd: text, token ids, log-probabilities and finish reason are those of the same request alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adversarial_drafters import RaisingDrafter, WrongDrafter
from verispec.conformance.company import Asked, compare_with_alone, run_together
from verispec.conformance.parity import Case, first_difference
from verispec.engine.batching.job import Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.text.grammar import Grammar

STRATEGIES = ("auto", "suffix", "prompt-lookup", "ngram-context")
PROMPTS: tuple[Any, ...] = (
    "The capital of France is",
    "one two three four five, one two three four five, one",
    "def area(width, height):\n    return width * height\n\n\ndef area(width",
    "Once upon a time there was a keeper of a light. " * 12,
    [{"role": "user", "content": "Write a JSON list of three colours."}],
    [{"role": "user", "content": "Repeat after me: red green blue, red green blue."}],
    "Größe: 12 µm; naïve café — 数字、文字。" * 3,
    "x",
)

SCHEMA = Grammar.json_schema(
    {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green", "blue"]}, "count": {"type": "integer"}},
        "required": ["colour", "count"],
        "additionalProperties": False,
    }
)


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Iterator[Model]:
    with load(smollm2_path, ctx=512, threads=2, sequences=17) as loaded:
        yield loaded


def mixed_requests(count: int, speculates: bool) -> list[Asked]:
    """Requests that differ in everything that could make them disturb one another."""
    draws = random.Random(count)
    requests: list[Asked] = []
    for index in range(count):
        options: dict[str, Any] = {"max_tokens": draws.choice((1, 4, 12, 24)), "seed": index}
        options["temperature"] = draws.choice((0.0, 0.7, 1.1))
        options["spec_mode"] = draws.choice(STRATEGIES) if speculates else "off"
        options["logprobs"] = draws.choice((None, None, 0, 3))
        options["frequency_penalty"] = draws.choice((0.0, 0.0, 0.4))
        options["top_p"] = draws.choice((1.0, 0.9))
        options["stop"] = draws.choice((None, None, ["e", "two"], [", "]))
        options["grammar"] = draws.choice((None, None, None, SCHEMA))
        requests.append((draws.choice(PROMPTS), options))
    return requests


@pytest.fixture(scope="module", params=[False, True], ids=["off", "speculating"])
def mixed(request: pytest.FixtureRequest, model: Model) -> tuple[list[Asked], list[Completion]]:
    requests = mixed_requests(64, request.param)
    return requests, [model.generate(prompt, **options) for prompt, options in requests]


@pytest.mark.parametrize("parallel", [1, 4, 16])
def test_64_mixed_requests_answer_as_each_does_alone(
    model: Model, mixed: tuple[list[Asked], list[Completion]], parallel: int
) -> None:
    requests, alone = mixed
    scheduler = Scheduler(model, SchedulerLimits(parallel=parallel))
    report = compare_with_alone(scheduler, requests, alone)
    assert report.first_differences == []
    assert report.identical == report.cases == 2 * len(requests)
    assert scheduler.statistics.prefix_hit_tokens > 0
    if parallel > 1:
        assert scheduler.statistics.batch_requests.total > 2 * scheduler.statistics.passes


def test_sliding_windows_do_not_see_company(gemma3_path: Path) -> None:
    """Prompts longer than the window, so that rings have turned, behind prefixes of the cache too."""
    text = "The keeper lit the lamp, and the lamp lit the sea. "
    with load(gemma3_path, ctx=1024, threads=2, sequences=3) as model:
        requests: list[Asked] = [
            (text * repeats, {"max_tokens": 8, "temperature": t, "seed": 3, "spec_mode": mode})
            for repeats, t, mode in ((60, 0.0, "suffix"), (3, 0.9, "off"), (61, 0.9, "suffix"))
        ]
        alone = [model.generate(prompt, **options) for prompt, options in requests]
        scheduler = Scheduler(model, SchedulerLimits(parallel=3))
        report = compare_with_alone(scheduler, requests, alone)
    assert report.first_differences == []
    assert scheduler.statistics.prefix_hit_tokens > 1000


def test_a_neighbours_drafter_changes_nothing(model: Model) -> None:
    asked: Asked = (PROMPTS[1], {"max_tokens": 24, "spec_mode": "suffix"})
    alone = model.generate(asked[0], **asked[1])
    text = [*alone.prompt_tokens, *alone.tokens]
    wrong = {"max_tokens": 24, "drafter": WrongDrafter(text, 49152)}
    raising = {"max_tokens": 24, "drafter": RaisingDrafter(text, "propose")}
    scheduler = Scheduler(model, SchedulerLimits(parallel=3))
    found = run_together(scheduler, [asked, (PROMPTS[1], wrong), (PROMPTS[1], raising)])
    for completion in found:
        assert first_difference(Case(0, "", 0, 0, 0.0), alone, completion) is None
    assert [len(completion.faults) for completion in found] == [0, 0, 3]
    assert scheduler.statistics.drafter_faults == 3


def test_rejected_rows_never_enter_the_prefix_cache(model: Model) -> None:
    """Behind a drafter that is always wrong, what the cache gives is what an honest evaluation would have saved."""
    prompt = model.encode(PROMPTS[3])
    alone = model.generate(prompt, max_tokens=80, spec_mode="off")
    text = [*alone.prompt_tokens, *alone.tokens]
    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    run_together(scheduler, [(prompt, {"max_tokens": 80, "drafter": WrongDrafter(text, 49152)})])
    continued = text[:-1]
    expected = model.generate(continued, max_tokens=12, spec_mode="off")
    (found,) = run_together(scheduler, [(continued, {"max_tokens": 12, "spec_mode": "suffix"})])
    assert found.counters.reused_tokens > len(prompt)
    assert first_difference(Case(0, "", 0, 0, 0.0), expected, found) is None


def test_scores_of_a_prompt_are_the_same_in_company(model: Model) -> None:
    """Scored in one piece, or in chunks beside others that write: the same bits."""
    prompt = model.encode(PROMPTS[3])
    alone = model.generate(prompt, max_tokens=0, prompt_logprobs=2)
    assert alone.prompt_logprobs is not None
    assert (alone.tokens, alone.finish_reason) == ((), "length")
    assert [one.token for one in alone.prompt_logprobs] == prompt
    assert alone.prompt_logprobs[0].logprob is None
    behind = model.generate(prompt[:40], max_tokens=1, logprobs=2, logit_bias={prompt[40]: 1e6})
    assert behind.logprobs is not None
    assert behind.logprobs[0] == alone.prompt_logprobs[40]
    scheduler = Scheduler(model, SchedulerLimits(parallel=3, prompt_rows=7))
    scored: Asked = (prompt, {"max_tokens": 0, "prompt_logprobs": 2})
    writing: Asked = (PROMPTS[0], {"max_tokens": 30, "spec_mode": "off"})
    for completion in run_together(scheduler, [writing, scored, scored])[1:]:
        assert completion.prompt_logprobs == alone.prompt_logprobs
        assert completion.counters.reused_tokens == 0


def test_requests_that_come_and_go_disturb_nobody(model: Model) -> None:
    """Cancels at random moments, newcomers in between; whoever stays answers as alone, and nothing is left behind."""
    draws = random.Random(5)
    requests = mixed_requests(40, True)
    alone = [model.generate(prompt, **options) for prompt, options in requests]
    scheduler = Scheduler(model, SchedulerLimits(parallel=5))
    jobs = {Job(model.prepare(prompt, options)): index for index, (prompt, options) in enumerate(requests)}
    coming, ends = list(jobs), {}
    while coming or not scheduler.idle:
        if coming and draws.random() < 0.4:
            scheduler.submit(coming.pop())
        if draws.random() < 0.1:
            draws.choice(list(jobs)).cancel()
        ends |= {job: event for job, event in scheduler.step() if not hasattr(event, "sampled")}
    assert ends.keys() == jobs.keys()
    stayed = [job for job, end in ends.items() if isinstance(end, Completion) and not job._cancelled]
    assert 10 < len(stayed) < len(jobs)
    for job in stayed:
        assert first_difference(Case(jobs[job], "", 0, 0, 0.0), alone[jobs[job]], ends[job]) is None
    for job, end in ends.items():
        if isinstance(end, Completion):
            reference = alone[jobs[job]]
            assert end.tokens == reference.tokens[: len(end.tokens)]
    sequences = [model.backend.open_sequence() for _ in range(17)]
    for sequence in sequences:
        model.backend.close_sequence(sequence)
