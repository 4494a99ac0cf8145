"""How many of what, in words."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 lane``, ``2 lanes``; ``many`` where an s does not make the plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"
