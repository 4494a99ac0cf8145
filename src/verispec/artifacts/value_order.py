"""How published weights order their rows, and how GGUF files do.

Facts of llama.cpp's converter: query and key rows of llama files are permuted so that rotated pairs are neighbours, and
value heads of Qwen3.5 are tiled (value head j belongs to key head j mod the key heads) instead of grouped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


def pair_neighbours(rows: Values, heads: int) -> Values:
    """Rows [heads * head_dim, ...] whose halves are rotated together, so that neighbours are instead."""
    per_head = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return per_head.swapaxes(1, 2).reshape(rows.shape)


@dataclass(frozen=True)
class Heads:
    """The heads of a gated delta net. ``tiled``: its GGUF files order value heads by turns of the key heads."""

    keys: int
    values: int
    key_dim: int
    value_dim: int
    tiled: bool

    @property
    def key_width(self) -> int:
        return self.keys * self.key_dim

    @property
    def value_width(self) -> int:
        return self.values * self.value_dim

    def of_heads(self, rows: Values) -> Values:
        """Rows [value heads, ...], one a value head, in GGUF's order."""
        return self._tile(rows, 1)

    def of_values(self, rows: Values) -> Values:
        """Rows [value heads * value_dim, ...] in GGUF's order."""
        return self._tile(rows, self.value_dim)

    def of_channels(self, rows: Values) -> Values:
        """Rows of queries, keys, values one after another: only the values move."""
        fixed = 2 * self.key_width
        return np.concatenate([rows[:fixed], self.of_values(rows[fixed:])])

    def ungroup(self, rows: Values) -> tuple[Values, Values]:
        """(queries, keys, values) and gates of rows that come as (q, k, v, z) key head by key head."""
        share = self.values // self.keys * self.value_dim
        grouped = rows.reshape(self.keys, 2 * self.key_dim + 2 * share, *rows.shape[1:])
        cuts = [self.key_dim, 2 * self.key_dim, 2 * self.key_dim + share]
        parts = [part.reshape(-1, *rows.shape[1:]) for part in np.split(grouped, cuts, axis=1)]
        return np.concatenate(parts[:3]), parts[3]

    def _tile(self, rows: Values, width: int) -> Values:
        if not self.tiled or self.keys == self.values:
            return rows
        grouped = rows.reshape(self.keys, self.values // self.keys, width, *rows.shape[1:])
        return grouped.swapaxes(0, 1).reshape(rows.shape)
