"""The engine beside an event loop: whoever waits hears of its end, however the engine's thread ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from verispec.engine.batching.scheduler import Scheduler, SchedulerLimits
from verispec.engine.model import Model
from verispec.errors import DrainingError, EngineFailedError, RequestCancelledError
from verispec.serving.engine_thread import Answer, EngineThread

OPTIONS: dict[str, Any] = {"spec_mode": "off", "max_tokens": 12}


def serve(model: Model, use: Callable[[EngineThread], Coroutine[Any, Any, None]], **limits: int) -> None:
    async def main() -> None:
        engine = EngineThread(model, SchedulerLimits(**{"parallel": 2, **limits}))
        engine.start()
        try:
            await asyncio.wait_for(use(engine), 60)
        finally:
            await asyncio.wait_for(engine.drain(0), 60)
        assert not engine.alive

    asyncio.run(main())


async def ended(answer: Answer) -> Any:
    try:
        return await answer.result()
    except Exception as error:
        return error


def test_answers_are_those_of_the_library(smollm2: Model) -> None:
    async def use(engine: EngineThread) -> None:
        prompts = [f"The number {index} is" for index in range(6)]
        answers = [engine.submit(prompt, OPTIONS) for prompt in prompts]
        for prompt, completion in zip(prompts, await asyncio.gather(*map(ended, answers)), strict=True):
            assert completion.tokens == smollm2.generate(prompt, **OPTIONS).tokens

    serve(smollm2, use)


def test_a_dead_thread_tells_all_who_wait(smollm2: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies with one answer just ended, one being written, one waiting; the first keeps its answer."""
    failures: list[bool] = []
    step = Scheduler.step

    def dying(scheduler: Scheduler) -> Any:
        events = step(scheduler)
        if scheduler.statistics.finished:
            scheduler.step = dead  # type: ignore[method-assign]
        return events

    def dead() -> Any:
        raise MemoryError("no memory")

    async def use(engine: EngineThread) -> None:
        engine.on_failure = lambda: failures.append(True)
        short, long, waiting = (engine.submit("A", {**OPTIONS, "max_tokens": n}) for n in (2, 200, 200))
        completion, *errors = await asyncio.gather(*map(ended, (short, long, waiting)))
        assert len(completion.tokens) == 2
        assert [type(error) for error in errors] == [EngineFailedError] * 2
        assert isinstance(engine.failure, MemoryError)
        assert failures == [True]
        with pytest.raises(EngineFailedError):
            engine.submit("A", OPTIONS)

    monkeypatch.setattr(Scheduler, "step", dying)
    serve(smollm2, use)
    monkeypatch.undo()
    sequences = [smollm2.backend.open_sequence() for _ in range(2)]  # the others died with the thread
    for sequence in sequences:
        smollm2.backend.close_sequence(sequence)


def test_a_drain_finishes_what_it_can_and_ends_the_rest(smollm2: Model) -> None:
    async def use(engine: EngineThread) -> None:
        short, long = (engine.submit("A", {**OPTIONS, "max_tokens": n}) for n in (2, 900))
        waiting = [engine.submit("A", {**OPTIONS, "max_tokens": 900}) for _ in range(3)]
        await anext(long)
        draining = asyncio.create_task(engine.drain(0.3))
        await asyncio.sleep(0)
        with pytest.raises(DrainingError):
            engine.submit("A", OPTIONS)
        await draining
        assert len((await short.result()).tokens) == 2
        for answer in (long, *waiting):
            assert isinstance(await ended(answer), DrainingError)

    serve(smollm2, use)


def test_a_cancel_while_waiting_is_heard_of(smollm2: Model) -> None:
    async def use(engine: EngineThread) -> None:
        running = engine.submit("A", {**OPTIONS, "max_tokens": 60})
        waiting = engine.submit("A", OPTIONS)
        waiting.cancel()
        assert isinstance(await ended(waiting), RequestCancelledError)
        running.cancel()
        assert (await running.result()).finish_reason == "cancelled"

    serve(smollm2, use, parallel=1)


def test_all_of_a_request_is_queued_or_none(smollm2: Model) -> None:
    async def use(engine: EngineThread) -> None:
        jobs = [engine.prepare("A", OPTIONS) for _ in range(9)]
        with pytest.raises(Exception, match="at most 2 requests waiting"):
            engine.enqueue(jobs)
        assert engine.statistics.waiting == 0
        assert len(await asyncio.gather(*map(ended, engine.enqueue(jobs[:2])))) == 2

    serve(smollm2, use, queue=2)
