"""Intervals of a share: how far a frequency of n rows may be from its probability."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from calibrant._typing import Floats


def normal_quantile(q: float) -> float:
    """Return the standard normal quantile."""
    return NormalDist().inv_cdf(q)


def wilson(share: Floats | float, n: Floats | float, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's interval of a share, elementwise.

    References
    ----------
    [1] Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.

    Examples
    --------
    >>> [round(float(end), 3) for end in wilson(0.5, 100, 0.95)]
    [0.404, 0.596]
    """
    z = normal_quantile(0.5 + level / 2)
    p, count = np.asarray(share, dtype=np.float64), np.asarray(n, dtype=np.float64)
    middle = (p + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * np.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return np.where(p == 0, 0.0, middle - half), np.where(p == 1, 1.0, middle + half)  # exact at the ends
