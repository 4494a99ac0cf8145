"""Server-sent events: what all chunks of a stream have in common is written once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DONE = b"data: [DONE]\n\n"

write_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""JSON as compact as it gets; for a string alone it is one call of a C function."""


class ChunkEvents:
    """Makes the events of one stream's chunks, which begin alike."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        """``head``: the fields of every chunk but ``choices``."""
        self._head = head
        self._opening = f'data: {write_json(head)[:-1]},"choices":['

    def choice(self, choice: str, more: str = "") -> bytes:
        """A chunk of one choice, which is a JSON object; ``more`` is ``,"name":value`` of further fields."""
        return f"{self._opening}{choice}]{more}}}\n\n".encode()

    def without_choices(self, fields: Mapping[str, Any]) -> bytes:
        """A chunk of no choice; ``fields`` stand beside those of the head or in their place."""
        return event({**self._head, "choices": [], **fields})


def event(body: Mapping[str, Any]) -> bytes:
    """One event with a JSON object."""
    return f"data: {write_json(body)}\n\n".encode()
