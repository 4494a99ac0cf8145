"""The events of a streamed answer, as they came: when, and everything in them that says how many tokens they carry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from verispec.lab.faults import LaneFaultError

TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")
"""Where servers put what the model wrote; thinking is written by the model like anything else."""
QUOTED = 80
LONGEST_EVENT = 4 << 20
"""Bytes of one event at most; what log-probabilities and ids of a whole answer need is far less."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event. ``offset`` is nanoseconds from the request to the arrival of its last byte.

    ``text`` and ``reasoning`` are what it adds. ``ids`` are token ids, ``logprobs`` how many tokens its
    log-probabilities speak of, ``total`` how many tokens the server says it has written so far; None where it does
    not say.
    """

    offset: int
    text: str = ""
    reasoning: str = ""
    called: bool = False
    ids: tuple[int, ...] | None = None
    logprobs: int | None = None
    total: int | None = None
    finish: str | None = None

    @property
    def writes(self) -> bool:
        """Whether it carries something that the model wrote; the role, an empty piece or an ending is nothing."""
        return bool(self.text or self.reasoning or self.called)


@dataclass(frozen=True, slots=True)
class Ending:
    """What the server says about the whole answer, in whichever event it says it."""

    usage: Mapping[str, Any] | None = None
    timings: Mapping[str, Any] | None = None


class EventBuffer:
    """What has arrived of a stream and is no whole event yet. Every byte is looked at once, however it arrives."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def add(self, part: bytes) -> list[bytes]:
        """The data of the events that end in ``part``. LaneFaultError for an event that grows without an end."""
        seam = bytes(self._waiting[-2:]) + part
        self._waiting += part
        found: list[bytes] = []
        if b"\n\n" in seam or b"\n\r\n" in seam:
            found, rest = split_events(bytes(self._waiting))
            self._waiting = bytearray(rest)
        if len(self._waiting) > LONGEST_EVENT:
            raise LaneFaultError(
                "stream-garbage", f"expected an event, found {LONGEST_EVENT} bytes without an end"
            )
        return found


def split_events(buffer: bytes) -> tuple[list[bytes], bytes]:
    """The data of complete events at the front of ``buffer``, and the rest."""
    normal = buffer.replace(b"\r\n", b"\n")
    *complete, rest = normal.split(b"\n\n")
    found = []
    for block in complete:
        lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
        if lines:
            found.append(b"\n".join(lines))
        elif any(
            line and not line.startswith((b":", b"event:", b"id:", b"retry:")) for line in block.split(b"\n")
        ):
            raise LaneFaultError("stream-garbage", f"expected events, found {block[:QUOTED]!r}")
    return found, rest


def read_event(data: bytes, offset: int) -> tuple[list[StreamEvent], Ending]:
    """An event's JSON. Raises LaneFaultError for what is not the protocol, or when it carries an error."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise LaneFaultError("stream-garbage", f"expected JSON, found {data[:QUOTED]!r}") from error
    if not isinstance(content, dict):
        raise LaneFaultError("stream-garbage", f"expected an object, found {data[:QUOTED]!r}")
    if content.get("error"):
        raise LaneFaultError("server-error", json.dumps(content["error"])[:300])
    usage, timings = content.get("usage"), content.get("timings")
    choices = content.get("choices")
    if not isinstance(choices, list):
        raise LaneFaultError("stream-garbage", f"expected choices, found {data[:QUOTED]!r}")
    total = _count(usage, "completion_tokens")
    if total is None:
        total = _count(timings, "predicted_n")
    try:
        events = [_event(choice, offset, total) for choice in choices]
    except (AttributeError, TypeError, ValueError) as error:
        raise LaneFaultError("stream-garbage", f"expected a choice, found {data[:QUOTED]!r}") from error
    return events, Ending(usage or None, timings or None)


def _event(choice: Mapping[str, Any], offset: int, total: int | None) -> StreamEvent:
    delta = choice.get("delta") or {}
    ids = choice.get("token_ids")
    logprobs = (choice.get("logprobs") or {}).get("content")
    pieces = dict(_pieces(delta))
    content = pieces.get("content", choice.get("text") or "") + pieces.get("refusal", "")
    return StreamEvent(
        offset,
        text=content,
        reasoning=pieces.get("reasoning_content") or pieces.get("reasoning") or "",
        called=bool(delta.get("tool_calls")),
        ids=None if ids is None else tuple(int(one) for one in ids),
        logprobs=None if logprobs is None else len(logprobs),
        total=total,
        finish=choice.get("finish_reason"),
    )


def _pieces(delta: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in TEXT_FIELDS:
        piece = delta.get(name)
        if isinstance(piece, str) and piece:
            yield name, piece


def _count(content: Any, name: str) -> int | None:
    value = content.get(name) if isinstance(content, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
