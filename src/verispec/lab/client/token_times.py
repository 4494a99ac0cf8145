"""How many tokens each event carried. A chunk is not a token: several may share one, and some carry none.

Four ways to know, from the best to the weakest; the first that the whole answer supports, and that agrees with the
server's own total, is taken:

``ids``: the events carry token ids. ``totals``: they carry running totals. ``logprobs``: they carry log-probabilities,
one entry a token. ``chunks``: one token an event that writes something, believed only when there are exactly as many
such events as tokens (or one fewer, when the answer ended by itself: the end token writes nothing).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from verispec.lab.client.events import StreamEvent

Counts = list[int] | None


def count_tokens(events: Sequence[StreamEvent], total: int | None) -> tuple[str, list[int]] | None:
    """(way, tokens of each event), or None when no way fits. ``total`` is the server's count, None for none."""
    if total is None:
        return None
    for way, count in WAYS.items():
        counts = count(events, total)
        if counts is not None and sum(counts) == total:
            return way, counts
    return None


def _by_ids(events: Sequence[StreamEvent], total: int) -> Counts:
    if not any(event.ids for event in events):
        return None
    return [len(event.ids or ()) for event in events]


def _by_totals(events: Sequence[StreamEvent], total: int) -> Counts:
    """Needs a running total on every event that writes; the last one alone says nothing about when."""
    if not events or any(event.writes and event.total is None for event in events):
        return None
    counts, before = [], 0
    for event in events:
        now = before if event.total is None else event.total
        if now < before:
            return None
        counts.append(now - before)
        before = now
    return _end_token(events, counts, total)


def _by_logprobs(events: Sequence[StreamEvent], total: int) -> Counts:
    if any(event.writes and event.logprobs is None for event in events):
        return None
    return _end_token(events, [event.logprobs or 0 for event in events], total)


def _by_chunks(events: Sequence[StreamEvent], total: int) -> Counts:
    return _end_token(events, [int(event.writes) for event in events], total)


def _end_token(events: Sequence[StreamEvent], counts: list[int], total: int) -> list[int]:
    """The end token, which writes nothing, came with the event that says why the answer ended."""
    last = next((index for index, event in enumerate(events) if event.finish == "stop"), None)
    if last is not None and sum(counts) == total - 1:
        counts[last] += 1
    return counts


WAYS: dict[str, Callable[[Sequence[StreamEvent], int], Counts]] = {
    "ids": _by_ids,
    "totals": _by_totals,
    "logprobs": _by_logprobs,
    "chunks": _by_chunks,
}
