"""Asynchronous iteration gives the text of generate, and leaving it in any way gives the sequence back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from verispec.engine.completion import Chunk
from verispec.engine.model import Model
from verispec.errors import OptionError

PROMPT = "left right left right left right left"
OPTIONS: dict[str, Any] = {"max_tokens": 16, "temperature": 0.4, "seed": 3}


def assert_every_sequence_is_free(model: Model) -> None:
    backend = model.backend
    for sequence in [backend.open_sequence() for _ in range(backend.capabilities.sequences)]:
        backend.close_sequence(sequence)


async def collect(model: Model, prompt: str = PROMPT, **options: Any) -> list[Chunk]:
    return [chunk async for chunk in model.astream(prompt, **{**OPTIONS, **options})]


def test_the_chunks_are_the_text_of_generate(smollm2: Model) -> None:
    reference = smollm2.generate(PROMPT, **OPTIONS)
    chunks = asyncio.run(collect(smollm2))
    assert "".join(chunk.text for chunk in chunks) == reference.text
    assert tuple(token for chunk in chunks for token in chunk.tokens) == reference.tokens
    assert_every_sequence_is_free(smollm2)


def test_streams_side_by_side_do_not_touch_each_other(smollm2: Model) -> None:
    prompts = [PROMPT, "up down up down up", "in out in out in"]

    async def all_at_once() -> list[list[Chunk]]:
        return await asyncio.gather(*(collect(smollm2, prompt) for prompt in prompts))

    for prompt, chunks in zip(prompts, asyncio.run(all_at_once()), strict=True):
        assert "".join(chunk.text for chunk in chunks) == smollm2.generate(prompt, **OPTIONS).text


def test_leaving_the_loop_frees_the_sequence(smollm2: Model) -> None:
    async def leave() -> None:
        async with contextlib.aclosing(smollm2.astream(PROMPT, **OPTIONS)) as chunks:
            async for _ in chunks:
                break

    asyncio.run(leave())
    assert_every_sequence_is_free(smollm2)


def test_cancelling_the_task_frees_the_sequence(smollm2: Model) -> None:
    async def cancel() -> int:
        seen: list[Chunk] = []
        started = asyncio.Event()

        async def consume() -> None:
            async for chunk in smollm2.astream(PROMPT, **{**OPTIONS, "max_tokens": 400, "ignore_eos": True}):
                seen.append(chunk)
                started.set()

        task = asyncio.create_task(consume())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return sum(len(chunk.tokens) for chunk in seen)

    assert 0 < asyncio.run(cancel()) < 400
    assert_every_sequence_is_free(smollm2)
    reference = smollm2.generate(PROMPT, **OPTIONS)
    assert "".join(chunk.text for chunk in asyncio.run(collect(smollm2))) == reference.text


def test_a_bad_option_is_refused_before_anything_is_held(smollm2: Model) -> None:
    with pytest.raises(OptionError, match="temperature"):
        asyncio.run(collect(smollm2, temperature=-1.0))
    assert_every_sequence_is_free(smollm2)
