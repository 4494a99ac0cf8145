"""Blocks of prompts seen before, found again by their tokens.

A block stands for its own tokens and all before them: keys and values depend on everything a row sees. So blocks form
a tree, and a block is found by what it follows and by its tokens.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from verispec.backends.contract import PrefixBlock
from verispec.errors import OptionError

Place = tuple[str | int, bytes]
"""What a block follows (the number of a held block; an identity for the first) and its token ids, int32 each. Two are
equal when all of it is: a hash never decides."""


@dataclass(frozen=True, slots=True)
class HeldBlock:
    number: int
    """Never given twice, so that nothing is found behind a block that was evicted and stored again."""
    block: PrefixBlock
    path_bytes: int
    """Its bytes and those of all that it follows."""


@dataclass(slots=True)
class Path:
    """How far one sequence of tokens has got in the tree of its identity: the places of its leading blocks."""

    identity: str
    places: list[Place] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)


class PrefixCache:
    """At most ``max_bytes`` of saved blocks of ``block`` positions each (``Capabilities.prefix_block``).

    Blocks are found only under the identity that they were stored under. The least recently used are evicted first,
    and none before the blocks that follow it. Not thread-safe: for the one thread that runs the backend.
    """

    def __init__(self, block: int, max_bytes: int) -> None:
        """Raises OptionError unless ``block`` is positive and ``max_bytes`` (0: hold nothing) not negative."""
        if block < 1:
            raise OptionError(f"prefix cache: expected blocks of at least 1 position, found {block}")
        if max_bytes < 0:
            raise OptionError(f"prefix cache: expected at least 0 bytes, found {max_bytes}")
        self.block = block
        self.max_bytes = max_bytes
        self.bytes = 0
        """Held now: the sum of the blocks' own ``bytes``."""
        self.query_tokens = 0
        """Tokens that ``match`` was asked for, ever; and those of the blocks it gave."""
        self.hit_tokens = 0
        self.stored_blocks = 0
        """Blocks taken in, ever; and those given up for others."""
        self.evicted_blocks = 0
        # Least recently used first. Every use of a block uses those it follows after it, so that they stand behind
        # it here: the first is always one that nothing follows.
        self._held: OrderedDict[Place, HeldBlock] = OrderedDict()
        self._numbers = count()

    @property
    def held_blocks(self) -> int:
        """Blocks held now."""
        return len(self._held)

    def find(self, identity: str, tokens: Sequence[int], most: int) -> Path:
        """The longest held prefix of ``tokens`` in at most ``most`` whole blocks. Counts as no use."""
        ids = array("i", tokens[: most * self.block])
        width = ids.itemsize * self.block
        own = ids.tobytes()
        path = Path(identity)
        after: str | int = identity
        for start in range(0, len(own) - width + 1, width):
            place = after, own[start : start + width]
            held = self._held.get(place)
            if held is None:
                break
            path.places.append(place)
            after = held.number
        return path

    def match(self, identity: str, tokens: Sequence[int]) -> Path:
        """The longest held prefix of the prompt ``tokens`` that a sequence can go on behind, and marks it as used.

        At most ``len(tokens) - 1`` positions: the last token must still be evaluated, for the row that says what
        follows.
        """
        path = self.find(identity, tokens, max(len(tokens) - 1, 0) // self.block)
        while path and not self._held[path.places[-1]].block.resumable:
            path.places.pop()
        self._use(path)
        self.query_tokens += len(tokens)
        self.hit_tokens += len(path) * self.block
        return path

    def blocks(self, path: Path) -> list[PrefixBlock]:
        """What ``match`` has just found, in order."""
        return [self._held[place].block for place in path.places]

    def extend(self, path: Path, tokens: Sequence[int], save: Callable[[], PrefixBlock]) -> bool:
        """Goes one block on from ``path``, by that block's ``tokens``, and marks all of it as used.

        A block that is not held yet is asked of ``save`` and taken in. False, and nothing changed, when what it follows
        is no longer held or leaves it no room even with everything else gone. Raises what ``save`` raises.
        """
        if len(tokens) != self.block:
            raise ValueError(
                f"prefix cache: expected the {self.block} tokens of a block, found {len(tokens)}"
            )
        before = self._held.get(path.places[-1]) if path.places else None
        if path.places and before is None:
            return False
        place = before.number if before else path.identity, array("i", tokens).tobytes()
        if place not in self._held:
            if not self._take(place, before, next(self._numbers), save()):
                return False
        elif not self._held[place].block.resumable and (block := save()).resumable:
            self._take(place, before, self._held[place].number, block)
        path.places.append(place)
        self._use(path)
        self._evict()
        return True

    def _take(self, place: Place, before: HeldBlock | None, number: int, block: PrefixBlock) -> bool:
        """Holds ``block``, in the stead of one that nobody could go on behind; whether there is room for its path."""
        path_bytes = block.bytes + (before.path_bytes if before else 0)
        if path_bytes > self.max_bytes:
            return False
        replaced = self._held.get(place)
        self._held[place] = HeldBlock(number, block, path_bytes)
        self.bytes += block.bytes - (replaced.block.bytes if replaced else 0)
        self.stored_blocks += replaced is None
        return True

    def clear(self) -> None:
        """Holds nothing any more. What was counted stays counted."""
        self._held.clear()
        self.bytes = 0

    def _use(self, path: Path) -> None:
        for place in reversed(path.places):
            self._held.move_to_end(place)

    def _evict(self) -> None:
        """Down to the bound. The path used last fits it, and stands behind all others: it stays."""
        while self.bytes > self.max_bytes:
            _, held = self._held.popitem(last=False)
            self.bytes -= held.block.bytes
            self.evicted_blocks += 1
