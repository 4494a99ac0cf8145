"""Matrices to quantise: the distributions that weights have, and some that they should not have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROWS, COLUMNS = 32, 1024


def distributions() -> dict[str, NDArray[np.float32]]:
    """Each float32 [32, 1024], the same in every process."""
    random = np.random.default_rng(17)
    shape = ROWS, COLUMNS
    row_scale = np.exp(random.normal(0, 0.5, (ROWS, 1)))
    made = {
        "normal": random.normal(0, 0.02, shape) * row_scale,
        "heavy-tailed": random.normal(0, 0.02, shape) / np.sqrt(random.uniform(0.02, 1, shape)),
        "one-sided": random.uniform(0.5, 1.5, shape),
        "sparse": random.normal(0, 1, shape) * (random.uniform(0, 1, shape) < 0.1),
        "outlier-columns": random.normal(0, 0.02, shape) * np.where(np.arange(COLUMNS) % 97 == 0, 20, 1),
    }
    return {name: values.astype(np.float32) for name, values in made.items()}
