"""The contexts of a text up to a length, numbered, so that a context is one small integer and not a tuple."""

from __future__ import annotations

from collections.abc import Sequence

ROOT = 0
_TOKEN_BITS = 32


class ContextTrie:
    """Token sequences as nodes of a trie, numbered from 0, the empty one, in the order they were made.

    The contexts that end at one place are a list of nodes, from that of 0 tokens on. Going on by a token
    makes of each the child that is one token longer, which is the context of that length at the next place.
    """

    def __init__(self) -> None:
        self._children: dict[int, int] = {}
        self.shorter = [ROOT]
        """By node: the same sequence without its first token."""
        self.last_token = [-1]
        """By node: the token it ends with."""

    def __len__(self) -> int:
        return len(self.shorter)

    def advance(self, contexts: Sequence[int], token: int) -> list[int]:
        """The child of every context by ``token``, made where there was none: one a context, in order."""
        children = self._children
        found = []
        shorter = ROOT
        for node in contexts:
            key = node << _TOKEN_BITS | token
            child = children.get(key)
            if child is None:
                child = children[key] = len(self.shorter)
                self.shorter.append(shorter)
                self.last_token.append(token)
            found.append(child)
            shorter = child
        return found
