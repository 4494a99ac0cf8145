"""A client for many streams at once that costs next to nothing: raw asyncio sockets, JSON read after the run.

It is the same for every server measured. A request is one connection; the time of each event is when its bytes came.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from benchmarks.server_process import SERVED_AS


@dataclass(slots=True)
class Stream:
    """One answer as it came. Times are seconds by ``time.perf_counter``."""

    sent: float = 0.0
    events: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def pieces(self) -> list[tuple[float, str]]:
        """When each piece of text came."""
        read = [(when, _text(event)) for when, event in self.events]
        return [(when, text) for when, text in read if text]

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.pieces)

    @property
    def first_text_seconds(self) -> float:
        """From the request to the first text: TTFT as a client sees it."""
        return self.pieces[0][0] - self.sent

    @property
    def ended(self) -> float:
        return self.events[-1][0]

    @property
    def tokens(self) -> int:
        """Tokens of the answer by the server's own count."""
        usages = [event["usage"] for event in map(_json, self._payloads()) if event.get("usage")]
        return int(usages[-1]["completion_tokens"])

    def gaps(self, since: float, until: float) -> list[float]:
        """Seconds between one piece of text and the next, for those that end within the time given."""
        times = [when for when, _ in self.pieces]
        return [later - earlier for earlier, later in pairwise(times) if since <= later and earlier <= until]

    def check(self, max_tokens: int) -> None:
        """RuntimeError for an answer that is not as long as was asked for."""
        if self.tokens != max_tokens:
            last = self.events[-1][1][:300]
            raise RuntimeError(f"expected {max_tokens} tokens, found {self.tokens}: {last!r}")

    def _payloads(self) -> list[bytes]:
        return [payload for _, event in self.events for payload in _data(event)]


async def stream(
    port: int, prompt: Sequence[int], max_tokens: int, more: Mapping[str, Any], answer: Stream
) -> Stream:
    """Fills ``answer`` with one greedy answer of exactly ``max_tokens`` to token ids, and gives it back.

    ``more`` are fields of the body that a server needs beside OpenAI's.
    """
    body = json.dumps(
        {
            "model": SERVED_AS,
            "prompt": list(prompt),
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": False,
            "stream": True,
            "stream_options": {"include_usage": True},
            **more,
        }
    ).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        answer.sent = time.perf_counter()
        writer.write(head.encode() + body)
        await _check_head(reader)
        async for chunk in _chunks(reader):
            answer.events.append((time.perf_counter(), chunk))
    finally:
        writer.close()
    return answer


async def crowd(
    port: int, prompts: Sequence[Sequence[int]], streams: int, max_tokens: int, more: Mapping[str, Any]
) -> list[Stream]:
    """An answer to each prompt, ``streams`` of them at any time: whoever has one takes the next prompt."""
    answers = [Stream() for _ in prompts]
    left = iter(zip(prompts, answers, strict=True))

    async def client() -> None:
        for prompt, answer in left:
            await stream(port, prompt, max_tokens, more, answer)

    await asyncio.gather(*(client() for _ in range(streams)))
    for answer in answers:
        answer.check(max_tokens)
    return answers


async def _check_head(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or b"chunked" not in head.lower():
        raise RuntimeError(f"expected a stream, found {head!r} {await reader.read(500)!r}")


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]


def _data(event: bytes) -> list[bytes]:
    """The JSON in what came at once, which may be several events."""
    lines = [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]
    return [line for line in lines if line != b"[DONE]"]


def _json(payload: bytes) -> dict[str, Any]:
    return dict(json.loads(payload))


def _text(event: bytes) -> str:
    choices = [choice for payload in _data(event) for choice in _json(payload).get("choices", ())]
    return "".join(choice.get("text") or "" for choice in choices)
