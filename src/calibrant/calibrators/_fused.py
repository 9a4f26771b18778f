"""The pass of temperature scaling compiled by numba (`calibrant[fast]`): the same numbers, one walk per row.

Only imported when numba is installed and the matrix is large enough to repay compilation.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # trailing zeros, so that k·_LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5·2⁵²: adding it leaves a whole number in the low bits
_BIAS = 1023 << 52
#: Sums may be reordered, which lets them run several at a time; the scores have been checked for nan.
FAST = {"reassoc", "contract", "nsz", "nnan"}


@numba.njit(inline="never")  # type: ignore[untyped-decorator]  # numba has no types
def _exp(x: float) -> float:
    """Return e^x for x ≤ 0 to the last bit or two; below −708 it counts as −708.

    x = k·ln 2 + r with |r| ≤ ln(2)/2; the series of e^r to r¹³ has an error of 1e-17.
    """
    x = max(x, -708.0)
    k = np.floor(x * _LOG2_E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = 1.0 / 6227020800.0
    series = series * r + 1.0 / 479001600.0
    series = series * r + 1.0 / 39916800.0
    series = series * r + 1.0 / 3628800.0
    series = series * r + 1.0 / 362880.0
    series = series * r + 1.0 / 40320.0
    series = series * r + 1.0 / 5040.0
    series = series * r + 1.0 / 720.0
    series = series * r + 1.0 / 120.0
    series = series * r + 1.0 / 24.0
    series = series * r + 1.0 / 6.0
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    bits = np.int64((np.float64(k + _ROUND).view(np.int64) << 52) + _BIAS)
    power = np.int64(bits).view(np.float64)
    return series * power


@numba.njit(nogil=True, cache=True, fastmath=FAST)  # type: ignore[untyped-decorator]  # numba has no types
def nll_pass(z: Any, codes: Any, weights: Any, smooth: float, beta: float) -> tuple[float, float, float]:
    """Return the weighted sums of loss, slope and curvature of `_newton.nll_sums` over some rows."""
    loss, slope, curve = 0.0, 0.0, 0.0
    n, k = z.shape
    for i in range(n):
        row = z[i]
        highest = row[0]
        for j in range(1, k):
            highest = row[j] if row[j] > highest else highest
        peak = np.float64(highest)
        mass, first, second, total = 0.0, 0.0, 0.0, 0.0
        for j in range(k):
            d = np.float64(row[j]) - peak
            e = _exp(beta * d)
            mass += e
            first += e * d
            second += e * d * d
            total += d
        target = (1.0 - smooth) * (np.float64(row[codes[i]]) - peak) + smooth * total / k
        mean = first / mass
        loss += weights[i] * (np.log(mass) - beta * target)
        slope += weights[i] * (mean - target)
        curve += weights[i] * (second / mass - mean * mean)
    return loss, slope, curve
