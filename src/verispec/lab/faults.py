"""Why a lane is not valid: a name from this list, and what was seen."""

from __future__ import annotations

from typing import Any

from verispec.errors import VerispecError

FAULTS = {
    "server-crashed-at-start": "the server's process ended before it was ready",
    "server-not-ready": "the server did not get ready in time",
    "server-died": "the server's process ended while it was measured",
    "server-silent": "the server sent nothing for longer than the target allows",
    "server-too-slow": "an answer took longer than the target allows",
    "server-refused": "the server answered with an error status",
    "server-error": "the server ended an answer with an error",
    "stream-broken": "the connection ended before the answer did",
    "stream-garbage": "what the server sent is not the protocol",
    "token-times-unknown": "the server's chunks cannot be attributed to tokens",
    "usage-missing": "the server did not say how many tokens it wrote",
    "clock-jump": "the clocks of this machine disagree about how long an answer took",
    "disk-full": "the evidence could not be written",
    "interrupted": "the lane was begun and never finished",
    "failed": "something in the lab itself went wrong",
}


class LaneFaultError(VerispecError):
    """Something that makes a lane invalid; ``name`` is one of ``FAULTS``."""

    def __init__(self, name: str, detail: str) -> None:
        assert name in FAULTS, name
        self.name = name
        self.detail = detail
        super().__init__(f"{name}: {detail}")

    def record(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {"name": self.name, "detail": self.detail}
