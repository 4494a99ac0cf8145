"""The decoder as a participant of the round: from committed tokens to text, and when to stop."""

from __future__ import annotations

from collections.abc import Collection

from verispec.text.detokenizer import Detokenizer
from verispec.text.stops import StopMatcher

DecoderMark = tuple[tuple[bytes, bool], tuple[str, str | None], int]
"""Checkpoints of detokeniser and stop matcher, and the tokens that may still come."""


class Decoder:
    """Turns each token into the text that is certain by then, and says when the generation is over.

    ``finish_reason`` becomes ``stop`` at an end token or a stop string and ``length`` at the last allowed token; the
    text before a stop string is complete and nothing behind it appears.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        stops: StopMatcher,
        end_tokens: Collection[int],
        max_tokens: int,
        context_bound: bool,
    ) -> None:
        self.detokenizer = detokenizer
        self.stops = stops
        self.end_tokens = frozenset(end_tokens)
        self.remaining = max_tokens
        self.context_bound = context_bound
        self.finish_reason: str | None = None if max_tokens else "length"
        self.stop_string: str | None = None
        self.ended_by_token = False
        self.completed = False

    @property
    def ended_by(self) -> str | None:
        """What ``finish_reason`` came of: an ``end_token``, a ``stop_string``, the ``grammar`` or a limit."""
        if self.finish_reason != "stop":
            return {"length": "max_tokens"}.get(self.finish_reason or "", self.finish_reason)
        if self.stop_string is not None:
            return "stop_string"
        return "grammar" if self.completed else "end_token"

    def push(self, token: int) -> str:
        """The text this token makes certain. Sets ``finish_reason`` when it is the last."""
        self.remaining -= 1
        if token in self.end_tokens:
            self.finish_reason, self.ended_by_token = "stop", True
            return self._flush("")
        text = self._match(self.detokenizer.push(token))
        if self.finish_reason is None and self.remaining == 0:
            self.finish_reason = "context" if self.context_bound else "length"
            text = self._flush(text)
        return text

    def complete(self) -> str:
        """Ends the generation because nothing can follow; gives the text still held back."""
        text = ""
        if self.finish_reason is None:
            self.finish_reason = "stop"
            text = self._flush("")
        if self.stop_string is None and not self.ended_by_token:
            self.finish_reason, self.completed = "stop", True
        return text

    def _match(self, piece: str) -> str:
        text = self.stops.push(piece)
        if self.stops.matched is not None:
            self.finish_reason = "stop"
            self.stop_string = self.stops.matched
        return text

    def _flush(self, text: str) -> str:
        """What the detokeniser and the stop matcher still hold back at the end of the generation."""
        reason = self.finish_reason
        text += self._match(self.detokenizer.flush())
        if self.stop_string is None:
            self.finish_reason = reason
            text += self.stops.flush()
        return text

    def checkpoint(self) -> DecoderMark:
        return self.detokenizer.checkpoint(), self.stops.checkpoint(), self.remaining

    def restore(self, checkpoint: DecoderMark) -> None:
        detokenizer, stops, self.remaining = checkpoint
        self.detokenizer.restore(detokenizer)
        self.stops.restore(stops)
        self.finish_reason = None
        self.stop_string = None
        self.ended_by_token = self.completed = False
