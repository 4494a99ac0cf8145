"""Do two sets of lanes vary alike? The F test of their variances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


def vary_alike(
    squares: ArrayLike, degrees: ArrayLike, known_squares: float, known_degrees: int, least_p: float
) -> NDArray[np.bool_]:
    """Where the two-sided F test of "one variance" has a p value of at least ``least_p``; arrays broadcast.

    Takes sums of squares with their degrees of freedom. True where there is no freedom yet: nothing speaks against it.
    """
    degrees = np.asarray(degrees, float)
    freedom = np.maximum(degrees, 1)
    ratio = np.asarray(squares, float) / freedom / (known_squares / known_degrees)
    low, high = stats.f.ppf([[least_p / 2], [1 - least_p / 2]], freedom.ravel(), known_degrees)
    alike = (ratio >= low.reshape(freedom.shape)) & (ratio <= high.reshape(freedom.shape))
    return np.asarray(alike | (degrees <= 0))
