"""Scheduling: a long prompt stalls nobody, the line is bounded, and a failure is its own request's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from verispec.backends.contract import Evaluation, Row
from verispec.engine.batching.job import Event, Job
from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.completion import Chunk, Completion
from verispec.engine.loading import load
from verispec.engine.model import Model
from verispec.engine.pass_cost import CostTable
from verispec.engine.shared_cost import SharedCost
from verispec.errors import (
    BackendError,
    DeadlineError,
    DrafterFaultError,
    DrainingError,
    QueueFullError,
    RequestCancelledError,
    VerispecError,
)

LONG = "Once upon a time there was a keeper of a light. " * 25
SHORT = "The capital of France is"
OFF: dict[str, Any] = {"spec_mode": "off"}


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Iterator[Model]:
    with load(smollm2_path, ctx=512, threads=2, sequences=6) as loaded:
        yield loaded


def job(model: Model, prompt: Any = SHORT, *, max_tokens: int = 8, **options: Any) -> Job:
    names = ("identity", "deadline", "cache_prompt", "started")
    serving = {name: options.pop(name) for name in names if name in options}
    return Job(model.prepare(prompt, {**OFF, "max_tokens": max_tokens, **options}), **serving)


def run(scheduler: Scheduler) -> dict[Job, list[Event]]:
    events: dict[Job, list[Event]] = {}
    while not scheduler.idle:
        for owner, event in scheduler.step():
            events.setdefault(owner, []).append(event)
    return events


def assert_every_sequence_is_free(model: Model) -> None:
    for sequence in [model.backend.open_sequence() for _ in range(6)]:
        model.backend.close_sequence(sequence)


def test_a_long_prompt_stalls_nobody(model: Model) -> None:
    """While it is read, chunk by chunk, every pass also gives the one that writes its token."""
    scheduler = Scheduler(model, SchedulerLimits(parallel=2, prompt_rows=16))
    writing = job(model, max_tokens=20)
    scheduler.submit(writing)
    scheduler.step()
    reading = job(model, LONG, max_tokens=2)
    scheduler.submit(reading)
    steps = 0
    while reading.request is None or reading.reading:
        wrote = [owner for owner, event in scheduler.step() if isinstance(event, Chunk)]
        assert writing in wrote
        steps += 1
    assert steps == -(-len(reading.prepared.prompt) // 16)
    run(scheduler)


def test_two_long_prompts_are_read_in_turn(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=3, prompt_rows=16))
    scheduler.submit(job(model, max_tokens=30))
    scheduler.step()
    first, second = job(model, LONG), job(model, LONG[1:])
    scheduler.submit(first, second)
    for _ in range(8):
        scheduler.step()
    lengths = [one.request.target.length for one in (first, second) if one.request is not None]
    assert len(lengths) == 2
    assert min(lengths) >= 48
    scheduler.end_all(DrainingError("enough"))
    run(scheduler)


def test_a_prompt_being_read_is_not_read_twice(model: Model) -> None:
    """The second of two equal prompts waits for the first to be read, then begins where it ended."""
    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    jobs = [job(model, LONG, choice=choice, temperature=1.0, seed=1) for choice in (0, 1)]
    scheduler.submit(*jobs)
    events = run(scheduler)
    first, second = (events[one][-1] for one in jobs)
    assert isinstance(first, Completion)
    assert isinstance(second, Completion)
    assert first.counters.reused_tokens == 0
    assert second.counters.reused_tokens >= len(second.prompt_tokens) - 33
    assert first.tokens != second.tokens  # another choice draws other noise


def test_prefixes_are_shared_within_one_identity_only(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=1))

    def reused(**serving: Any) -> int:
        one = job(model, LONG, max_tokens=1, **serving)
        scheduler.submit(one)
        completion = run(scheduler)[one][-1]
        assert isinstance(completion, Completion)
        return completion.counters.reused_tokens

    assert reused(identity="a") == 0
    assert reused(identity="b") == 0
    assert reused(identity="a", cache_prompt=False) == 0
    assert reused(identity="a") > 200
    assert reused(identity="b") > 200


def test_a_full_line_says_when_to_come_back(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=1, queue=3))
    scheduler.submit(*[job(model) for _ in range(2)])
    with pytest.raises(QueueFullError, match="at most 3 requests waiting") as full:
        scheduler.submit(*[job(model) for _ in range(3)])  # all or none
    assert (
        full.value.retry_after == 2.0
    )  # one is to be served first, then another; a second each, as far as is known
    scheduler.submit(*[job(model) for _ in range(2)])  # three wait, and one has a seat that is free
    with pytest.raises(QueueFullError):
        scheduler.submit(job(model))
    assert scheduler.statistics.rejected_requests == 4
    assert len(run(scheduler)) == 4


def test_a_line_without_room_still_has_its_seats(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=2, queue=0))
    scheduler.submit(job(model), job(model))
    with pytest.raises(QueueFullError):
        scheduler.submit(job(model))
    scheduler.step()
    with pytest.raises(QueueFullError):
        scheduler.submit(job(model))
    assert len(run(scheduler)) == 2
    scheduler.submit(job(model))
    assert len(run(scheduler)) == 1


def test_advice_to_come_back_goes_by_answers_alone(model: Model) -> None:
    """Neither the wait in the line nor a cancelled answer counts as how long an answer takes."""
    scheduler = Scheduler(model, SchedulerLimits(parallel=1, queue=0))
    for _ in range(30):
        cancelled = job(model, max_tokens=500)
        scheduler.submit(cancelled)
        scheduler.step()
        cancelled.cancel()
        run(scheduler)
    quick = job(model, max_tokens=1, started=time.perf_counter() - 1000.0)
    scheduler.submit(quick)
    with pytest.raises(QueueFullError) as full:
        scheduler.submit(job(model))
    assert full.value.retry_after == 2.0
    run(scheduler)
    scheduler.submit(job(model))
    with pytest.raises(QueueFullError) as full:
        scheduler.submit(job(model))
    assert full.value.retry_after < 100.0
    run(scheduler)


def test_a_late_request_ends_and_the_others_do_not(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    late, patient = job(model, max_tokens=400, deadline=0.2), job(model, max_tokens=20)
    scheduler.submit(late, patient)
    started = time.perf_counter()
    waiting = job(model, deadline=0.0)
    scheduler.submit(waiting)
    events = run(scheduler)
    assert isinstance(events[late][-1], DeadlineError)
    assert [type(event) for event in events[waiting]] == [DeadlineError]
    assert isinstance(events[patient][-1], Completion)
    assert "within 0.2 s" in str(events[late][-1])
    assert time.perf_counter() - started < 60
    assert scheduler.statistics.finished == {"deadline": 2, "length": 1}
    assert_every_sequence_is_free(model)


def test_a_cancel_while_waiting_or_running_ends_that_request(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=1))
    running, waiting, after = job(model, max_tokens=50), job(model), job(model)
    scheduler.submit(running, waiting, after)
    scheduler.step()
    waiting.cancel()
    running.cancel()
    events = run(scheduler)
    cancelled = events[running][-1]
    assert isinstance(cancelled, Completion)
    assert cancelled.finish_reason == "cancelled"
    assert [type(event) for event in events[waiting]] == [RequestCancelledError]
    assert isinstance(events[after][-1], Completion)
    assert_every_sequence_is_free(model)


def test_a_closed_line_takes_nobody_and_finishes_those_there(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=1))
    there = job(model)
    scheduler.submit(there)
    scheduler.line.close()
    with pytest.raises(DrainingError):
        scheduler.submit(job(model))
    assert isinstance(run(scheduler)[there][-1], Completion)


def test_a_request_that_fails_fails_alone(model: Model) -> None:
    """Under ``strict_drafter`` a broken corpus of proposals ends its own request; the neighbour's answer is whole."""
    from adversarial_drafters import RaisingDrafter

    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    prompt = model.encode(SHORT)
    broken = Job(
        model.prepare(
            prompt, {"max_tokens": 8, "drafter": RaisingDrafter(prompt, "propose"), "strict_drafter": True}
        )
    )
    whole = job(model, max_tokens=12)
    scheduler.submit(broken, whole)
    events = run(scheduler)
    assert [type(event) for event in events[broken]] == [DrafterFaultError]
    completion = events[whole][-1]
    assert isinstance(completion, Completion)
    assert completion.tokens == model.generate(SHORT, max_tokens=12, **OFF).tokens
    assert_every_sequence_is_free(model)


def test_a_request_that_cannot_begin_fails_alone(model: Model, tmp_path: Path) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    missing = {"spec_mode": "suffix", "spec_suffix_corpus": str(tmp_path / "missing.corpus"), "max_tokens": 4}
    broken, whole = Job(model.prepare(SHORT, missing)), job(model, max_tokens=4)
    scheduler.submit(broken, whole)
    events = run(scheduler)
    assert len(events[broken]) == 1
    assert isinstance(events[broken][0], VerispecError)
    assert "missing.corpus" in str(events[broken][0])
    assert isinstance(events[whole][-1], Completion)
    assert_every_sequence_is_free(model)


def test_a_scored_prompt_that_is_cancelled_says_so(model: Model) -> None:
    scheduler = Scheduler(model, SchedulerLimits(parallel=1))
    scored = job(model, LONG, max_tokens=0, prompt_logprobs=1)
    scheduler.submit(scored)
    scheduler.step()
    scored.cancel()
    end = run(scheduler)[scored][-1]
    assert isinstance(end, Completion)
    assert (end.finish_reason, end.ended_by) == ("cancelled", "cancelled")
    assert end.prompt_logprobs is not None
    assert 1 < len(end.prompt_logprobs) < len(end.prompt_tokens)
    generation = model.stream(LONG, max_tokens=0, prompt_logprobs=1)
    generation.close()
    assert generation.result().finish_reason == "cancelled"


def test_a_pass_that_fails_is_found_out_request_by_request(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend refuses one sequence's rows: that request gets the error, the other its pass."""
    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    doomed, whole = job(model, max_tokens=12), job(model, SHORT + " the", max_tokens=12)
    scheduler.submit(doomed, whole)
    scheduler.step()
    assert doomed.request is not None
    refused, evaluate = doomed.request.target.sequence, model.backend.evaluate

    def refusing(rows: list[Row], *arguments: Any) -> Evaluation:
        if any(row.sequence == refused for row in rows):
            raise BackendError("rows: refused")
        return evaluate(rows, *arguments)

    monkeypatch.setattr(model.backend, "evaluate", refusing)
    events = run(scheduler)
    monkeypatch.undo()
    assert isinstance(events[doomed][-1], BackendError)
    completion = events[whole][-1]
    assert isinstance(completion, Completion)
    assert completion.tokens == model.generate(SHORT + " the", max_tokens=12, **OFF).tokens
    assert_every_sequence_is_free(model)


def test_the_library_and_the_scheduler_share_one_model(model: Model) -> None:
    """Sequences that the library holds are not the scheduler's: it waits until one is free."""
    held = [model.stream(SHORT, max_tokens=4, **OFF) for _ in range(6)]
    scheduler = Scheduler(model, SchedulerLimits(parallel=2))
    waiting = job(model)
    scheduler.submit(waiting)
    assert scheduler.step() == []
    held.pop().close()
    assert isinstance(run(scheduler)[waiting][-1], Completion)
    for generation in held:
        assert len(generation.result().tokens) == 4


def test_a_proposal_in_company_pays_for_what_it_adds() -> None:
    """T(1) = 4, T(5) = 6, then 2 a row: beside four rows the first proposed row costs more than it does alone."""
    table = CostTable({0: {1: 4.0, 5: 6.0, 9: 14.0}})
    cost = SharedCost(table)
    assert list(cost.row_costs(3, 0)) == list(table.row_costs(3, 0))
    cost.rows, cost.requests = 4, 5
    assert list(cost.row_costs(3, 0)) == pytest.approx([6.0 / 5, 6.0 / 5 + 2.0, 6.0 / 5 + 4.0])
