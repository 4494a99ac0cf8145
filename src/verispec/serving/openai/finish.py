"""Why an answer ended: in OpenAI's words, and more exactly."""

from __future__ import annotations

from verispec.engine.completion import Completion
from verispec.serving.openai.errors import draining

CANCELLED = "cancelled"


def finish_reason(completion: Completion) -> str:
    """``stop`` or ``length``. Raises RequestError for an answer that was ended from outside, by a shutdown."""
    if completion.finish_reason == CANCELLED:
        raise draining("the server is shutting down and ended this answer")
    return "stop" if completion.finish_reason == "stop" else "length"


def finish_detail(completion: Completion) -> str:
    """``end_token``, ``stop_string``, ``grammar`` (nothing can follow), ``max_tokens`` or ``context``."""
    return completion.ended_by
