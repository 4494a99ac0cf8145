"""The raw row of one prompt: everything that was asked and that came back, from which all numbers are derived later."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from verispec.bench.suites import SuitePrompt
from verispec.lab.client.clocks import disagreement
from verispec.lab.client.stream import Answer
from verispec.lab.client.token_times import count_tokens
from verispec.lab.faults import LaneFaultError
from verispec.lab.secrets import content_shown
from verispec.lab.targets.source import Source, look_up

Row = dict[str, Any]


def raw_row(prompt: SuitePrompt, order: int, body: Mapping[str, Any], answer: Answer) -> Row:
    """The row as JSON. ``events`` are [nanoseconds since the request, tokens, token ids or null, text, reasoning].

    ``order`` is the prompt's place in the lane, ``body`` the request; its messages are kept as a digest of the prompt.
    """
    total = (answer.usage or {}).get("completion_tokens")
    counted = count_tokens(answer.events, total if isinstance(total, int) else None)
    fault = answer.fault or _silent_fault(answer, total, counted is None)
    way, counts = counted if counted else (None, [])
    details = (answer.usage or {}).get("prompt_tokens_details") or {}
    return {
        "kind": "row",
        "prompt": prompt.id,
        "class": prompt.category,
        "prompt_sha256": prompt.digest,
        "order": order,
        "request": content_shown({name: value for name, value in body.items() if name != "messages"}),
        "status": answer.status,
        "began": {"monotonic": answer.began.monotonic, "wall": answer.began.wall, "boot": answer.began.boot},
        "ended": {"monotonic": answer.ended.monotonic, "wall": answer.ended.wall, "boot": answer.ended.boot},
        "events": [
            [
                event.offset,
                counts[index] if way else None,
                None if event.ids is None else list(event.ids),
                event.text,
                event.reasoning,
            ]
            for index, event in enumerate(answer.events)
        ],
        "token_source": way,
        "text_sha256": hashlib.sha256(answer.text.encode("utf-8", "surrogatepass")).hexdigest(),
        "finish_reason": next((event.finish for event in reversed(answer.events) if event.finish), None),
        "usage": answer.usage,
        "timings": answer.timings,
        "cached_tokens": details.get("cached_tokens"),
        "fault": None if fault is None else fault.record(),
    }


def _silent_fault(answer: Answer, total: Any, uncounted: bool) -> LaneFaultError | None:
    """What is wrong with an answer that came to its end."""
    jump = disagreement(answer.began, answer.ended)
    if jump:
        return LaneFaultError("clock-jump", jump)
    offsets = [event.offset for event in answer.events]
    if offsets != sorted(offsets) or min(offsets, default=0) < 0:
        return LaneFaultError("clock-jump", "an event arrived before an earlier one")
    if not isinstance(total, int):
        return LaneFaultError("usage-missing", "no completion_tokens at the end of the answer")
    if uncounted:
        writing = sum(event.writes for event in answer.events)
        return LaneFaultError(
            "token-times-unknown", f"{total} tokens in {writing} chunks that do not say how many"
        )
    return None


def accepted_by_position(row: Row, source: Source | None) -> dict[str, list[int]]:
    """What a row holds beside its counts: in how many passes each place of a proposal was accepted, if that is told."""
    told = None if source is None else look_up(row.get(source.place), source.path)
    if not isinstance(told, list) or not all(type(count) is int and count >= 0 for count in told):
        return {}
    return {"accepted_by_position": told}


def read_counts(
    row: Row, sources: Mapping[str, Source], before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[dict[str, float], bool]:
    """Passes, drafted and accepted tokens of one row by the profile's ``sources``, and whether passes are inferred.

    What a source lacks is left out. ``before`` and ``after`` are samples of the server's metrics around the request. A
    server that counts tokens and accepted ones but not passes should have written one token a pass beside the accepted
    ones; that is not seen, and wrong by the passes that wrote none (a long prompt's, a draft's that was thrown away).
    """
    found: dict[str, float] = {}
    for name, source in sources.items():
        value = _count(row, source, before, after)
        if value is not None:
            found[name] = value
    tokens = (row.get("usage") or {}).get("completion_tokens")
    if "passes" in found or "accepted" not in found or not isinstance(tokens, int):
        return found, False
    return {**found, "passes": tokens - found["accepted"]}, True


def _count(row: Row, source: Source, before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    if source.place == "metrics":
        if source.path not in after:
            return None
        return after[source.path] - before.get(source.path, 0.0)
    value = look_up(row.get(source.place), source.path)
    return float(value) if isinstance(value, int | float) else None
