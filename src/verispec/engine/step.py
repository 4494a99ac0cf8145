"""What a request does next."""

from __future__ import annotations

from verispec.engine.request import Request
from verispec.engine.round import run_round
from verispec.engine.shared_pass import Step


def next_step(request: Request, rows: int) -> Step[object] | None:
    """The next chunk of the prompt or the next round, within a pass of ``rows`` rows; None when it is over."""
    request.recover()
    if request.over:
        return None
    chunk = request.prompt_chunk(rows)
    return request.process_prompt(chunk) if chunk else run_round(request, rows)
