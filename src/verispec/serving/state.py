"""What every route of one server shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from verispec.evidence.receipt import Receipt
    from verispec.serving.engine_thread import EngineThread


class ReceiptStore(Protocol):
    """Where finished requests leave their receipts, each to be read by the caller that made it alone."""

    def put(self, receipt_id: str, identity: str, receipt: Receipt) -> None:
        """Keeps ``receipt`` for the caller ``identity``; may forget the oldest to stay bounded."""


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """How much one request may ask for at once; what lies past it is refused with 400.

    ``answers`` bounds prompts times ``n``, ``stops`` the stop strings, ``deadline`` the seconds a client may ask for.
    """

    answers: int = 128
    stops: int = 16
    deadline: float = 3600.0


@dataclass(frozen=True)
class ServerState:
    """The served model and its surroundings; built once at start.

    ``model_id`` is what answers are signed with and what ``/v1/models`` shows; ``aliases`` are further names that
    requests may use for it. ``created`` is the start in seconds since the epoch.
    """

    engine: EngineThread
    model_id: str
    receipts: ReceiptStore
    created: int
    aliases: frozenset[str] = frozenset()
    bounds: RequestBounds = field(default_factory=RequestBounds)

    def serves(self, name: str) -> bool:
        """Whether ``name`` is the served model's id or an alias of it."""
        return name == self.model_id or name in self.aliases
