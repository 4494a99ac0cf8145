"""Drafters that are wrong in one way each, for tests of everything that has to survive them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from verispec.drafting.contract import Drafter, Proposal


class ScriptedDrafter(Drafter):
    """Knows its committed tokens; what it offers is left to subclasses."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    def observe(self, tokens: Sequence[int]) -> None:
        self.tokens.extend(tokens)

    def propose(self, limit: int) -> Proposal:
        tokens = self.guess(limit)
        return Proposal(tokens, [1.0] * len(tokens))

    def checkpoint(self) -> int:
        return len(self.tokens)

    def restore(self, checkpoint: object) -> None:
        assert isinstance(checkpoint, int)
        del self.tokens[checkpoint:]

    def guess(self, limit: int) -> list[int]:
        return []


class EmptyDrafter(ScriptedDrafter):
    """Never offers anything."""

    name = "empty"


class OracleDrafter(ScriptedDrafter):
    """Always right: ``text`` is prompt and output, which it reads on from wherever the request stands."""

    name = "oracle"

    def __init__(self, text: Sequence[int]) -> None:
        super().__init__()
        self.text = list(text)

    def guess(self, limit: int) -> list[int]:
        return self.text[len(self.tokens) : len(self.tokens) + limit]


class WrongDrafter(OracleDrafter):
    """Always wrong from its first token on, and sure of itself."""

    name = "wrong"

    def __init__(self, text: Sequence[int], vocabulary: int) -> None:
        super().__init__(text)
        self.vocabulary = vocabulary

    def guess(self, limit: int) -> list[int]:
        return [(token + 1) % self.vocabulary for token in super().guess(limit)] or [0] * limit


class WrongAtDrafter(OracleDrafter):
    """Right, except for the token at one place of every proposal."""

    name = "wrong-at"

    def __init__(self, text: Sequence[int], vocabulary: int, place: int) -> None:
        super().__init__(text)
        self.vocabulary = vocabulary
        self.place = place

    def guess(self, limit: int) -> list[int]:
        tokens = super().guess(limit)
        if self.place < len(tokens):
            tokens[self.place] = (tokens[self.place] + 1) % self.vocabulary
        return tokens


class TooLongDrafter(ScriptedDrafter):
    """Offers more than was asked for."""

    name = "too-long"

    def guess(self, limit: int) -> list[int]:
        return [0] * (limit + 5)


class OutOfVocabularyDrafter(ScriptedDrafter):
    """Offers an id that no token has."""

    name = "out-of-vocabulary"

    def __init__(self, token: int) -> None:
        super().__init__()
        self.token = token

    def guess(self, limit: int) -> list[int]:
        return [self.token]


class SlowDrafter(OracleDrafter):
    """Right and late."""

    name = "slow"

    def __init__(self, text: Sequence[int], seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds

    def guess(self, limit: int) -> list[int]:
        time.sleep(self.seconds)
        return super().guess(limit)


class RaisingDrafter(OracleDrafter):
    """Right until the given call of one method (``propose``, ``observe``, ``checkpoint``, ``restore``)
    raises.

    ``calls`` numbers the calls of that method that raise, from 0; None: all of them.
    """

    name = "raising"

    def __init__(self, text: Sequence[int], method: str, calls: Sequence[int] | None = None) -> None:
        super().__init__(text)
        self.method = method
        self.calls = calls
        self.count = 0

    def observe(self, tokens: Sequence[int]) -> None:
        self._raise_in("observe")
        super().observe(tokens)

    def propose(self, limit: int) -> Proposal:
        self._raise_in("propose")
        return super().propose(limit)

    def checkpoint(self) -> int:
        self._raise_in("checkpoint")
        return super().checkpoint()

    def restore(self, checkpoint: object) -> None:
        self._raise_in("restore")
        super().restore(checkpoint)

    def _raise_in(self, method: str) -> None:
        if method != self.method:
            return
        call, self.count = self.count, self.count + 1
        if self.calls is None or call in self.calls:
            raise RuntimeError(f"{method}, call {call}")
