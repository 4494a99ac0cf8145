"""Tokens that are matched in text as they are written, before any merging: control and user-defined ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping


def cut_at(text: str, tokens: Mapping[str, int]) -> Iterator[tuple[str, int | None]]:
    """Pieces of ``text``, each with the token that ends it (None for the last piece).

    The longest token that begins earliest is taken, as the published tokenisers do. Vocabularies have
    thousands of such tokens and texts hold few, so only those that occur are searched for.
    """
    present = [name for name in tokens if name in text]
    if not present:
        yield text, None
        return
    longest_first = sorted(present, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    for index in range(0, len(parts) - 1, 2):
        yield parts[index], tokens[parts[index + 1]]
    yield parts[-1], None
