"""Handing the answers of one request to the engine: all of them or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verispec.engine.batching.job import Job
from verispec.serving.engine_thread import Answer
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.prompts import in_time
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.state import ServerState


@dataclass(frozen=True, slots=True)
class Submission:
    """One answer asked of the engine: the prompt's token ids, and the engine's options."""

    prompt: Sequence[int]
    options: Mapping[str, Any]


async def submit_all(
    state: ServerState,
    submissions: Sequence[Submission],
    request: SharedParameters,
    caller: str,
    arrived: float,
) -> list[Answer]:
    """The answers, queued in order; their clocks run since ``arrived``, by ``time.perf_counter``.

    Raises as the engine does; then none of them is queued.
    """
    serving = {
        "identity": cache_identity(request, caller, state.model_id),
        "deadline": state.bounds.deadline_of(request.deadline),
        "cache_prompt": request.cache_prompt is not False,
        "started": arrived,
    }

    def prepare(some: Sequence[Submission]) -> list[Job]:
        return [state.engine.prepare(one.prompt, one.options, **serving) for one in some]

    if any("grammar" in one.options for one in submissions):  # each is compiled, and each takes its turn
        jobs = [job for one in submissions for job in await state.grammar_threads.run(prepare, [one])]
    else:
        jobs = await in_time(sum(len(one.prompt) for one in submissions), prepare, submissions)
    return state.engine.enqueue(jobs)


def cancel_all(answers: Sequence[Answer]) -> None:
    """Ends those that still run; the others do not notice."""
    for answer in answers:
        answer.cancel()


def cache_identity(request: SharedParameters, caller: str, model: str) -> str:
    """Whose prefixes a request may find in the cache: those of the same caller, model, user and cache key."""
    user = request.safety_identifier if isinstance(request, ChatRequest) else None
    return json.dumps([caller, model, request.user, user, request.prompt_cache_key])
