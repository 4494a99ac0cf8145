"""Stop strings over a stream of text pieces: the text before one is complete, nothing after it leaks."""

from __future__ import annotations

from collections.abc import Iterable

from verispec.errors import OptionError


class StopMatcher:
    """Watches text for the stop string that is complete first.

    Where several end at the same character, the longest counts. Only text that could still become a stop
    string is held back. What comes out depends on the text alone, not on how it was cut into pieces.
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        given = [stops] if isinstance(stops, str) else stops
        self.stops = tuple(dict.fromkeys(_checked(stop) for stop in given))
        # Beginnings of stops, by length, longest first: what may have to be held back.
        beginnings = {stop[:length] for stop in self.stops for length in range(1, len(stop))}
        self._beginnings = tuple(sorted(beginnings, key=len, reverse=True))
        self._held = ""
        self.matched: str | None = None

    def push(self, piece: str) -> str:
        """The text that is certain now. Once ``matched`` is set, nothing more comes out."""
        if not self.stops:
            return piece
        if self.matched is not None:
            return ""
        text = self._held + piece
        found = self._first_complete(text)
        if found is not None:
            start, self.matched = found
            self._held = ""
            return text[:start]
        if not text.endswith(self._beginnings):
            self._held = ""
            return text
        self._held = next(beginning for beginning in self._beginnings if text.endswith(beginning))
        return text[: -len(self._held)]

    def _first_complete(self, text: str) -> tuple[int, str] | None:
        """Where the stop that is complete first begins, and which it is."""
        best: tuple[int, int, str] | None = None
        for stop in self.stops:
            start = text.find(stop)
            if start >= 0 and (best is None or (start + len(stop), start) < best[:2]):
                best = start + len(stop), start, stop
        return best and best[1:]

    def flush(self) -> str:
        """The text still held back, at the end of a generation that met no stop."""
        text, self._held = self._held, ""
        return text

    def checkpoint(self) -> tuple[str, str | None]:
        return self._held, self.matched

    def restore(self, checkpoint: tuple[str, str | None]) -> None:
        self._held, self.matched = checkpoint


def _checked(stop: object) -> str:
    if not isinstance(stop, str) or not stop:
        raise OptionError(f"stop: expected non-empty strings, found {stop!r}")
    return stop
