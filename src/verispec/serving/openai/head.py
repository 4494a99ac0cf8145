"""What every object and every chunk of one answer begins with."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Head:
    """``id`` is new for each request, ``created`` in seconds since the epoch."""

    id: str
    created: int
    model: str
    system_fingerprint: str

    @classmethod
    def new(cls, prefix: str, model: str, fingerprint: str) -> Head:
        return cls(f"{prefix}-{secrets.token_hex(16)}", int(time.time()), model, fingerprint)

    def fields(self, kind: str) -> dict[str, Any]:
        """The head of an object of that ``kind``, such as ``chat.completion``."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
        }


def fingerprint(identity: Mapping[str, str | int]) -> str:
    """Changes when anything does that can change a bit of an answer. ``identity`` is the backend's."""
    text = json.dumps(identity, sort_keys=True)
    return f"fp_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
