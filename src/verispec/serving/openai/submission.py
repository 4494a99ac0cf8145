"""Handing the answers of one request to the engine: all of them or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verispec.engine.batching.job import Job
from verispec.serving.engine_thread import Answer
from verispec.serving.openai.chat_request import ChatRequest
from verispec.serving.openai.prompts import LONG, in_time
from verispec.serving.openai.shared_parameters import SharedParameters
from verispec.serving.state import ServerState


@dataclass(frozen=True, slots=True)
class Submission:
    """One answer asked of the engine: the prompt's token ids, and the engine's options."""

    prompt: Sequence[int]
    options: Mapping[str, Any]

    @property
    def size(self) -> int:
        """How much work it is to prepare; compiling a grammar is as much as a long prompt."""
        return len(self.prompt) + (LONG if "grammar" in self.options else 0)


async def submit_all(
    state: ServerState, submissions: Sequence[Submission], request: SharedParameters, caller: str
) -> list[Answer]:
    """The answers, queued in order. Raises as the engine does; then none of them is queued."""
    serving = {
        "identity": cache_identity(request, caller, state.model_id),
        "deadline": request.deadline if request.deadline is not None else state.bounds.deadline,
        "cache_prompt": request.cache_prompt is not False,
    }

    def prepare(one: Submission) -> Job:
        return state.engine.prepare(one.prompt, one.options, **serving)

    return state.engine.enqueue([await in_time(one.size, prepare, one) for one in submissions])


def cancel_all(answers: Sequence[Answer]) -> None:
    """Ends those that still run; the others do not notice."""
    for answer in answers:
        answer.cancel()


def cache_identity(request: SharedParameters, caller: str, model: str) -> str:
    """Whose prefixes a request may find in the cache: those of the same caller, model, user and cache key."""
    user = request.safety_identifier if isinstance(request, ChatRequest) else None
    return json.dumps([caller, model, request.user, user, request.prompt_cache_key])
