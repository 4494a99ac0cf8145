"""From a row's events to the arrival time of each token."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from verispec.errors import OptionError


def token_times(row: Mapping[str, Any]) -> list[float]:
    """t_1 .. t_n in seconds since the request was sent; tokens that came in one event share its time.

    Raises OptionError for a row whose tokens could not be counted, or whose times run backwards.
    """
    times: list[float] = []
    for offset, count, *_ in row["events"]:
        if count is None:
            raise OptionError(f"row {row['prompt']}: expected tokens of each event, found none")
        times += [offset / 1e9] * count
    if any(later < earlier for earlier, later in itertools.pairwise(times)):
        raise OptionError(f"row {row['prompt']}: expected times in order, found one before another")
    return times


def token_ids(row: Mapping[str, Any]) -> list[int] | None:
    """The token ids, where the server gave them with every event that carried tokens."""
    ids: list[int] = []
    for _, count, given, *_ in row["events"]:
        if count and (given is None or len(given) != count):
            return None
        ids += given or []
    return ids or None


def row_text(row: Mapping[str, Any]) -> str:
    """All that the model wrote: its thinking, then its answer."""
    return "".join(event[4] for event in row["events"]) + "".join(event[3] for event in row["events"])
