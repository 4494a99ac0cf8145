"""What every route of one server shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from verispec.serving.grammar_threads import GrammarThreads
from verispec.serving.openai.token_text import TokenTexts

if TYPE_CHECKING:
    from verispec.evidence.receipt import Receipt
    from verispec.serving.engine_thread import EngineThread


class ReceiptStore(Protocol):
    """Where finished requests leave their receipts, each to be read by the caller that made it alone."""

    def put(self, receipt_id: str, identity: str, receipt: Receipt) -> None:
        """Keeps ``receipt`` for the caller ``identity``; may forget the oldest to stay bounded."""


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """How much one request may ask for; what lies past it is refused with 400.

    ``answers`` bounds its prompts times ``n``: no more than an idle engine takes, since all are queued together.
    ``deadline`` is the seconds that a request gets, and the most that one may ask for.
    """

    answers: int = 64
    deadline: float = 600.0

    def deadline_of(self, asked: float | None) -> float:
        """The seconds of a request that asked for ``asked``, or left it open."""
        return self.deadline if asked is None else asked


@dataclass(frozen=True)
class ServerState:
    """The served model and its surroundings; built once at start.

    ``model_id`` is what answers are signed with and what ``/v1/models`` shows; ``aliases`` are further names that
    requests may use for it. ``created`` is the start in seconds since the epoch. ``with_defaults`` adds to the engine
    options that a request gave those that the server decides where a request does not.
    """

    engine: EngineThread
    model_id: str
    receipts: ReceiptStore
    created: int
    aliases: frozenset[str] = frozenset()
    bounds: RequestBounds = field(default_factory=RequestBounds)
    with_defaults: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    grammar_threads: GrammarThreads = field(default_factory=GrammarThreads)

    @cached_property
    def token_texts(self) -> TokenTexts:
        """The model's tokens as answers show them."""
        return TokenTexts(self.engine.model.tokenizer)

    def serves(self, name: str) -> bool:
        """Whether ``name`` is the served model's id or an alias of it."""
        return name == self.model_id or name in self.aliases
