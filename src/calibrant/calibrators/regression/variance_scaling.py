"""Variance scaling: factor and offset of the variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from calibrant._typing import Floats
from calibrant.calibrators.regression._base import RegressionCalibrator
from calibrant.calibrators.regression.std_scaling import refuse_perfect
from calibrant.core.links import sigmoid

__all__ = ["VarianceScaling"]

#: Points of the first search, and how far it reaches beyond the smallest and largest variance (log units).
GRID = 64
REACH = 5.0
TOLERANCE = 1e-12


class VarianceScaling(RegressionCalibrator):
    """Platt scaling of the variance, v → scale·v + offset, both not negative, minimizing DSS.

    Attributes
    ----------
    scale_, offset_ : float
        Not both zero. With one distinct variance only their sum of effects is determined; then ``offset_`` is 0.

    Notes
    -----
    The minimum over {scale ≥ 0, offset ≥ 0} of mean((y − μ)²/(w v + b) + log(w v + b)). Along a ray (w, b) = c·(w₀, b₀)
    the best c is mean((y − μ)²/(w₀ v + b₀)), so one variable is left, the log-odds of the offset's weight. It is
    bracketed on a grid that spans all variances (the score may have several local minima), finished by safeguarded
    Newton steps, and compared with both edges w = 0 and b = 0: the global optimum, to 12 digits. Keeps the mean,
    one-to-one unless ``scale_`` is 0. O(n) per step, about 80 passes.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, section 5 and appendix G.5.

    Examples
    --------
    >>> method = VarianceScaling().fit([0.0] * 4, [1.0, 1.0, 2.0, 2.0], [1.0, -1.0, 2.0, -2.0])
    >>> method.scale_, method.offset_  # squared errors 1 and 4 at variances 1 and 2: the line 3v − 2, cut at b = 0
    (1.5, 0.0)
    """

    short_name: ClassVar[str] = "variance-scaling"
    title: ClassVar[str] = "factor and offset on the variance"
    paper: ClassVar[str] = "Gruber & Buettner 2022"
    when: ClassVar[str] = (
        "When small variances are wrong by another factor than large ones (a noise floor); some hundred rows."
    )
    injective: ClassVar[bool] = True
    n_parameters: ClassVar[float] = 2
    state: ClassVar[tuple[str, ...]] = ("scale_", "offset_")
    scale_: float
    offset_: float

    def _fit(self, mean: Floats, variance: Floats, y: Floats, weights: Floats) -> None:
        squared = (y - mean) ** 2
        share = weights / weights.sum()
        refuse_perfect(_dot(share, squared), "VarianceScaling.fit")
        self.scale_, self.offset_ = _minimize(variance, squared, share)

    def _predict(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        return mean, self.scale_ * variance + self.offset_


def _dot(a: Floats, b: Floats) -> float:
    """Sum of products on this thread: a matrix library would wake others for every short vector."""
    return float(np.einsum("i,i->", a, b))


def _minimize(variance: Floats, squared: Floats, share: Floats) -> tuple[float, float]:
    """Return the global minimizer (scale, offset) of DSS on the quadrant."""
    unit = _dot(share, variance)
    x = variance / unit
    low, high = np.log(x.min()), np.log(x.max())

    def rays(odds: float) -> tuple[float, float]:
        """Weights of variance and offset: 1 − t and t, t = sigmoid(odds)."""
        if np.isinf(odds):
            return (1.0, 0.0) if odds < 0 else (0.0, 1.0)
        return float(sigmoid(np.array([-odds]))[0]), float(sigmoid(np.array([odds]))[0])

    def value(odds: float) -> float:
        """DSS less 1 with the best c: log mean(r²/u) + mean log u, u = (1 − t) x + t."""  # [1] DSS
        a, t = rays(odds)
        u = a * x + t
        return float(np.log(_dot(share, squared / u))) + _dot(share, np.log(u))

    def slopes(odds: float) -> tuple[float, float]:
        """First and second derivative of `value`."""
        a, t = rays(odds)
        u = a * x + t
        d, q = (1 - x) / u, squared / u
        level = _dot(share, q)
        ratio = -_dot(share, q * d) / level
        first = ratio + _dot(share, d)
        second = 2 * _dot(share, q * d * d) / level - ratio**2 - _dot(share, d * d)
        step = a * t
        return first * step, second * step * step + first * step * (a - t)

    best, least = -np.inf, value(-np.inf)
    if high > low:
        grid = np.linspace(low - REACH, high + REACH, GRID)
        heights = np.array([value(odds) for odds in grid])
        inner = np.flatnonzero((heights[1:-1] <= heights[:-2]) & (heights[1:-1] <= heights[2:])) + 1
        candidates = [_newton(slopes, grid[i - 1], grid[i], grid[i + 1]) for i in inner]
        for odds in [*candidates, np.inf]:
            height = value(odds)
            if height < least - TOLERANCE:
                best, least = odds, height
    a, t = rays(best)
    level = _dot(share, squared / (a * x + t))
    return level * a / unit, level * t


def _newton(slopes: Callable[[float], tuple[float, float]], low: float, start: float, high: float) -> float:
    """Find the zero of the slope between `low` and `high`: Newton steps, halving where they leave the bracket."""
    odds = start
    for _ in range(100):
        first, second = slopes(odds)
        if first > 0:
            high = odds
        else:
            low = odds
        step = odds - first / second if second > 0 else low - 1
        new = step if low < step < high else 0.5 * (low + high)
        if abs(new - odds) <= TOLERANCE * max(1.0, abs(odds)):
            return new
        odds = new
    return odds
