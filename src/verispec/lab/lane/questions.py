"""Asking a server: first the canaries, then each prompt once, each row kept before the next is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from verispec.lab.client.fetch import fetch
from verispec.lab.client.rows import Row, accepted_by_position, raw_row, read_counts
from verispec.lab.client.stream import StreamClient
from verispec.lab.faults import LaneFaultError
from verispec.lab.identity.report import ServerReport
from verispec.lab.lane.request import LaneRequest

SECONDS = 30.0
Progress = Callable[[int, int], None]


def served_model(url: str, declared: str) -> str:
    """The name under which the server serves the model: ``declared`` where it is listed (also as ``declared:latest``,
    as Ollama lists it), or else the first that is."""
    try:
        listed = [str(one["id"]) for one in json.loads(fetch(f"{url}/v1/models", SECONDS) or "")["data"]]
    except (ValueError, LookupError, TypeError):
        return declared
    same = [name for name in (declared, f"{declared}:latest") if name in listed]
    return (same or listed or [declared])[0]


def ask_canaries(request: LaneRequest, model: str, client: StreamClient) -> list[dict[str, Any]]:
    """Every canary as often as its suite says. Raises LaneFaultError when an answer does not come to its end."""
    results = []
    for canary in request.canaries.canaries:
        body = request.body(model, canary.text, request.canaries.max_tokens)
        answers = []
        for _ in range(request.canaries.repeats):
            answer = client.ask(body)
            if answer.fault is not None:
                raise answer.fault
            answers.append(answer.text)
        results.append(
            {
                "id": canary.id,
                "check": canary.check,
                "text": canary.text,
                "expected": canary.expected.strip(),
                "asked": len(answers),
                "passed": sum(canary.passes(answer) for answer in answers),
                "answers": sorted(set(answers)),
                "wrong": sorted({answer for answer in answers if not canary.passes(answer)}),
            }
        )
    return results


def ask_prompts(
    request: LaneRequest, model: str, client: StreamClient, report: ServerReport
) -> Iterator[Row]:
    """The raw row of each prompt as soon as it is over; the first that has a fault is the last."""
    sources = request.target.profile.counts
    sampled = any(source.place == "metrics" for source in sources.values())
    for order, prompt in enumerate(request.suite.prompts):
        before = report.metrics() if sampled else {}
        body = request.body(model, prompt.text, request.cap)
        row = raw_row(prompt, order, body, client.ask(body))
        after = report.metrics() if sampled else {}
        counts, inferred = read_counts(row, sources, before, after)
        row |= {"lane": request.lane, "counts": counts} | ({"passes_inferred": True} if inferred else {})
        row |= accepted_by_position(row, request.target.profile.accepted_by_position)
        yield row
        if row["fault"] is not None:
            return


def wake(request: LaneRequest, model: str, client: StreamClient) -> None:
    """One token, so that a server that loads its model late has loaded it."""
    answer = client.ask(request.body(model, "Hello.", 1))
    if answer.fault is not None:
        raise LaneFaultError(answer.fault.name, f"at the first request: {answer.fault.detail}")
