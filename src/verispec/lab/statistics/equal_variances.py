"""Do two sets of lanes vary alike? The F test of their variances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from verispec.lab.statistics.t_process import Floats


def equal_variances_p(
    first_squares: ArrayLike, first_degrees: ArrayLike, second_squares: ArrayLike, second_degrees: ArrayLike
) -> Floats:
    """Two-sided p value of "one variance", from sums of squares and their degrees of freedom; arrays broadcast.

    1 where either has no freedom or the second no spread: nothing speaks against it.
    """
    squares, degrees = np.asarray(first_squares, float), np.asarray(first_degrees, float)
    other_squares, other_degrees = np.asarray(second_squares, float), np.asarray(second_degrees, float)
    known = (degrees > 0) & (other_degrees > 0) & (other_squares > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (squares / degrees) / (other_squares / other_degrees)
        below = stats.f.cdf(ratio, degrees, other_degrees)
    return np.where(known, 2 * np.minimum(below, 1 - below), 1.0)
