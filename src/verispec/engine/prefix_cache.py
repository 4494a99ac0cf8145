"""Blocks of prompts seen before, found again by their tokens.

A block stands for its own tokens and all before them: keys and values depend on everything a row sees. So blocks form
a tree, and a block is found by what it follows and by its tokens.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
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

    def match(self, identity: str, tokens: Sequence[int]) -> list[PrefixBlock]:
        """The longest held prefix of the prompt ``tokens``, in order, and marks it as used.

        At most ``len(tokens) - 1`` positions: the last token must still be evaluated, for the row that says what
        follows.
        """
        path = self._path(identity, tokens, max(len(tokens) - 1, 0) // self.block)
        self._use(path)
        self.query_tokens += len(tokens)
        self.hit_tokens += len(path) * self.block
        return [self._held[place].block for place in path]

    def held(self, identity: str, tokens: Sequence[int]) -> int:
        """How many leading whole blocks of ``tokens`` are held: the first that is worth saving. Counts as no use."""
        return len(self._path(identity, tokens, len(tokens) // self.block))

    def store(self, identity: str, tokens: Sequence[int], index: int, block: PrefixBlock) -> bool:
        """Takes in block ``index`` of a sequence that holds ``tokens``, and marks it and what it follows as used.

        False, and nothing changed, when what it follows is not held or leaves it no room even with everything else
        gone. A block held already stays: the new one is the same. Raises IndexError unless ``tokens`` reach to the
        block's end.
        """
        if not 0 <= index < len(tokens) // self.block:
            raise IndexError(
                f"prefix cache: expected one of {len(tokens) // self.block} whole blocks, found {index}"
            )
        path = self._path(identity, tokens, index + 1)
        if len(path) < index:
            return False
        if len(path) == index:
            before = self._held[path[-1]] if path else None
            path_bytes = block.bytes + (before.path_bytes if before else 0)
            if path_bytes > self.max_bytes:
                return False
            own = array("i", tokens[index * self.block : (index + 1) * self.block]).tobytes()
            path.append((before.number if before else identity, own))
            self._held[path[-1]] = HeldBlock(next(self._numbers), block, path_bytes)
            self.bytes += block.bytes
            self.stored_blocks += 1
        self._use(path)
        self._evict()
        return True

    def clear(self) -> None:
        """Holds nothing any more. What was counted stays counted."""
        self._held.clear()
        self.bytes = 0

    def _path(self, identity: str, tokens: Sequence[int], blocks: int) -> list[Place]:
        """Places of the held ones among the first ``blocks`` blocks, up to the first that is missing."""
        ids = array("i", tokens[: blocks * self.block])
        width = ids.itemsize * self.block
        own = ids.tobytes()
        path: list[Place] = []
        after: str | int = identity
        for start in range(0, len(own), width):
            place = after, own[start : start + width]
            held = self._held.get(place)
            if held is None:
                break
            path.append(place)
            after = held.number
        return path

    def _use(self, path: Sequence[Place]) -> None:
        for place in reversed(path):
            self._held.move_to_end(place)

    def _evict(self) -> None:
        """Down to the bound. The path used last fits it, and stands behind all others: it stays."""
        while self.bytes > self.max_bytes:
            _, held = self._held.popitem(last=False)
            self.bytes -= held.block.bytes
            self.evicted_blocks += 1
