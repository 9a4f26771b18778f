"""What a regression model may hand in: a normal distribution, samples or quantiles per row, behind one protocol."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np

from calibrant._typing import ArrayLike, Bools, Floats
from calibrant.core.columns import check_column, check_levels, check_table, check_variance
from calibrant.errors import input_error

__all__ = ["Means", "Normal", "Prediction", "Quantiles", "Samples", "is_prediction"]

INV_SQRT_PI = 1 / np.sqrt(np.pi)
INV_SQRT_2PI = 1 / np.sqrt(2 * np.pi)


class Prediction(Protocol):
    """A predictive distribution per row; metrics and calibrators of regression ask for nothing else."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def mean(self) -> Floats:
        """Mean of each row."""

    @property
    def variance(self) -> Floats:
        """Variance of each row."""

    def cdf(self, y: Floats) -> Floats:
        """P(Y ≤ y) of each row, one y per row."""

    def quantile(self, levels: Floats) -> Floats:
        """Quantiles of each row, shape (n, levels)."""

    def crps(self, y: Floats) -> Floats:
        """Continuous ranked probability score of each row."""

    def pit(self, y: Floats, rng: np.random.Generator) -> Floats:
        """Probability integral transform: uniform if y follows the forecast (randomized where it has steps)."""

    def part(self, rows: Any) -> Prediction:
        """Return the same forecast for some rows (a slice, indices or a mask)."""


#: Predicted means, or a forecast object that stands for mean and variance.
Means: TypeAlias = "ArrayLike | Prediction"


def is_prediction(value: object) -> TypeGuard[Prediction]:
    """Whether `value` speaks the protocol (asked by name, so that no property is computed)."""
    return all(callable(getattr(type(value), name, None)) for name in ("cdf", "quantile", "crps", "pit", "part"))


class Normal:
    """One normal distribution per row.

    Parameters
    ----------
    mean, variance : array of shape (n,)
        `variance` must be positive.

    Examples
    --------
    >>> Normal([0.0], [1.0]).quantile([0.5, 0.975])
    array([[0.  , 1.95996398]])
    """

    def __init__(self, mean: ArrayLike, variance: ArrayLike, *, caller: str = "Normal") -> None:
        self._mean = check_column(mean, "mean", caller)
        self._variance = check_variance(variance, caller, len(self._mean))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self._mean)

    @property
    def mean(self) -> Floats:
        """Mean of each row."""
        return self._mean

    @property
    def variance(self) -> Floats:
        """Variance of each row."""
        return self._variance

    @cached_property
    def std(self) -> Floats:
        """Standard deviation of each row."""
        return np.sqrt(self._variance)

    def cdf(self, y: ArrayLike) -> Floats:
        """P(Y ≤ y) of each row."""
        from scipy.special import ndtr

        return np.asarray(ndtr((np.asarray(y) - self._mean) / self.std))

    def quantile(self, levels: ArrayLike) -> Floats:
        """Quantiles of each row, shape (n, levels)."""
        from scipy.special import ndtri

        return self._mean[:, None] + self.std[:, None] * ndtri(check_levels(levels, "Normal.quantile"))

    def crps(self, y: ArrayLike) -> Floats:
        """σ·(z(2Φ(z) − 1) + 2φ(z) − 1/√π), z = (y − μ)/σ."""
        from scipy.special import ndtr

        z = (np.asarray(y) - self._mean) / self.std
        # Gneiting et al. (2005), "Calibrated probabilistic forecasting using ensemble model output statistics", eq. (5)
        return np.asarray(self.std * (z * (2 * ndtr(z) - 1) + 2 * INV_SQRT_2PI * np.exp(-0.5 * z * z) - INV_SQRT_PI))

    def pit(self, y: ArrayLike, rng: np.random.Generator) -> Floats:  # noqa: ARG002  # continuous: no coin
        """Return the value of the distribution function at y."""
        return self.cdf(y)

    def part(self, rows: Any) -> Normal:
        """Return the same forecast for some rows (views, already checked)."""
        piece = object.__new__(Normal)
        piece._mean, piece._variance = self._mean[rows], self._variance[rows]
        return piece


@dataclass(frozen=True, eq=False)
class Samples:
    """Draws of the forecast, one row of m draws per case (ensemble, Monte Carlo dropout).

    Parameters
    ----------
    values : array of shape (n, m)

    Notes
    -----
    The distribution of a row is the empirical one of its draws; `variance` divides by m − 1. The PIT is the rank of y
    among the draws, (rank + U)/(m + 1): uniform whenever y and the draws are exchangeable.

    Examples
    --------
    >>> Samples([[0.0, 1.0]]).crps([1.0])
    array([0.25])
    """

    values: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.sort(check_table(self.values, "values", "Samples"), axis=1))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def mean(self) -> Floats:
        """Mean of the draws of each row."""
        return np.asarray(self.values.mean(axis=1))

    @property
    def variance(self) -> Floats:
        """Variance of the draws of each row, divisor m − 1; must come out positive."""
        if self.values.shape[1] < 2:
            raise input_error(
                "values", "Samples.variance", "hold at least two draws per row", "one", "draw more samples"
            )
        return check_variance(self.values.var(axis=1, ddof=1), "Samples.variance")

    def _below(self, y: ArrayLike) -> tuple[Floats, Floats]:
        column = np.asarray(y, dtype=np.float64)[:, None]
        return (self.values < column).sum(axis=1), (self.values <= column).sum(axis=1)

    def cdf(self, y: ArrayLike) -> Floats:
        """Share of draws ≤ y."""
        return np.asarray(self._below(y)[1] / self.values.shape[1])

    def quantile(self, levels: ArrayLike) -> Floats:
        """Smallest draw whose share reaches the level."""
        m = self.values.shape[1]
        order = np.ceil(check_levels(levels, "Samples.quantile") * m - 1e-9).astype(np.int64)
        return np.asarray(self.values[:, np.clip(order - 1, 0, m - 1)])

    def crps(self, y: ArrayLike) -> Floats:
        """E|X − y| − E|X − X'|/2 of the empirical distribution, O(m log m) by sorting."""
        m = self.values.shape[1]
        # Gneiting & Raftery (2007), eq. (21); Σ_ij |x_i − x_j| = 2 Σ_k (2k − m − 1) x_(k)
        spread = self.values @ (2 * np.arange(1, m + 1) - m - 1.0) / m**2
        return np.asarray(np.abs(self.values - np.asarray(y, dtype=np.float64)[:, None]).mean(axis=1) - spread)

    def pit(self, y: ArrayLike, rng: np.random.Generator) -> Floats:
        """Randomized rank of y among the draws."""
        below, upto = self._below(y)
        return np.asarray((below + rng.random(self.n) * (upto - below + 1)) / (self.values.shape[1] + 1))

    def part(self, rows: Any) -> Samples:
        """Return the same forecast for some rows."""
        piece = object.__new__(Samples)
        object.__setattr__(piece, "values", self.values[rows])
        return piece


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A table of quantiles per row.

    Parameters
    ----------
    levels : array of shape (q,)
        Increasing levels in (0, 1).
    values : array of shape (n, q)
        Quantiles, not decreasing along a row.

    Notes
    -----
    A table states nothing between its levels and beyond the outer ones. The PIT is therefore drawn evenly between
    the levels around y, so that it is uniform whenever the stated quantiles are right. For cdf, mean, variance and
    CRPS the quantile function is taken as linear between the levels, with the mass beyond at the outer quantiles
    (exact for that distribution, whose variance is smaller than that of one with tails).

    Examples
    --------
    >>> table = Quantiles([0.25, 0.75], [[-1.0, 1.0]])
    >>> table.cdf([0.0]), table.mean
    (array([0.5]), array([0.]))
    """

    levels: Floats
    values: Floats

    def __post_init__(self) -> None:
        levels = check_levels(self.levels, "Quantiles")
        values = check_table(self.values, "values", "Quantiles")
        if values.shape[1] != len(levels):
            rule = f"have one column for each of the {len(levels)} levels"
            raise input_error("values", "Quantiles", rule, f"shape {values.shape}", "pass the quantiles as (n, levels)")
        falling = (np.diff(values, axis=1) < 0).any(axis=1)
        if falling.any():
            row = int(np.flatnonzero(falling)[0])
            rule, hint = "not decrease along a row", "sort each row (numpy.sort(values, axis=1))"
            raise input_error("values", "Quantiles", rule, f"crossing quantiles at row {row}", hint)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "values", values)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.values)

    @cached_property
    def _mass(self) -> Floats:
        """Weights of segment ends: tails at the outer quantiles, each segment's mass at its ends' average."""
        tail = np.array([self.levels[0], 1 - self.levels[-1]])
        return np.concatenate([tail[:1], np.diff(self.levels), tail[1:]])

    @property
    def mean(self) -> Floats:
        """Exact mean of the piecewise linear quantile function."""
        return self._moment((self.values[:, :-1] + self.values[:, 1:]) / 2, 1)

    @property
    def variance(self) -> Floats:
        """Exact variance of the piecewise linear quantile function; must come out positive."""
        low, high = self.values[:, :-1], self.values[:, 1:]
        second = self._moment((low**2 + low * high + high**2) / 3, 2)
        return check_variance(second - self.mean**2, "Quantiles.variance")

    def _moment(self, inner: Floats, power: int) -> Floats:
        ends = self.values[:, [0, -1]] ** power @ self._mass[[0, -1]]
        return np.asarray(ends + inner @ self._mass[1:-1])

    def _position(self, y: ArrayLike) -> tuple[Floats, Bools, Bools]:
        """Level at y inside the table, and whether y lies below or above it."""
        column = np.asarray(y, dtype=np.float64)
        q = self.values.shape[1]
        below, above = column < self.values[:, 0], column >= self.values[:, -1]
        right = np.clip((self.values <= column[:, None]).sum(axis=1), 1, max(q - 1, 1))
        if q == 1:
            return np.full(self.n, self.levels[0]), below, above
        rows = np.arange(self.n)
        x0, x1 = self.values[rows, right - 1], self.values[rows, right]
        width = np.where(x1 > x0, x1 - x0, 1.0)
        share = np.clip((column - x0) / width, 0, 1)
        return self.levels[right - 1] + share * (self.levels[right] - self.levels[right - 1]), below, above

    def cdf(self, y: ArrayLike) -> Floats:
        """Linear between the quantiles, 0 below the lowest and 1 from the highest on."""
        level, below, above = self._position(y)
        return np.where(below, 0.0, np.where(above, 1.0, level))

    def quantile(self, levels: ArrayLike) -> Floats:
        """Linear between the levels, held beyond the outer ones."""
        wanted = check_levels(levels, "Quantiles.quantile")
        right = np.clip(np.searchsorted(self.levels, wanted), 1, max(len(self.levels) - 1, 1))
        if len(self.levels) == 1:
            return np.repeat(self.values, len(wanted), axis=1)
        gap = self.levels[right] - self.levels[right - 1]
        share = np.clip((wanted - self.levels[right - 1]) / gap, 0, 1)
        return np.asarray(self.values[:, right - 1] * (1 - share) + self.values[:, right] * share)

    def crps(self, y: ArrayLike) -> Floats:
        """∫ (F(x) − 1[x ≥ y])² dx, exact for the piecewise linear distribution."""
        column = np.asarray(y, dtype=np.float64)
        # Gneiting & Raftery (2007), eq. (20); on a segment F is linear from a to b, so ∫F² = length·(a² + ab + b²)/3
        low, high = self.values[:, :-1], self.values[:, 1:]
        a, b = self.levels[:-1], self.levels[1:]
        cut = np.clip(column[:, None], low, high)
        share = np.divide(cut - low, high - low, out=np.zeros_like(low), where=high > low)
        middle = a + share * (b - a)
        left = (cut - low) * (a * a + a * middle + middle * middle) / 3
        nm, nb = 1 - middle, 1 - b
        right = (high - cut) * (nm * nm + nm * nb + nb * nb) / 3
        outside = np.maximum(self.values[:, 0] - column, 0) + np.maximum(column - self.values[:, -1], 0)
        return np.asarray(left.sum(axis=1) + right.sum(axis=1) + outside)

    def pit(self, y: ArrayLike, rng: np.random.Generator) -> Floats:
        """Drawn evenly between the levels around y; between equal quantiles where y meets them."""
        column = np.asarray(y, dtype=np.float64)[:, None]
        stated = np.concatenate([[0.0], self.levels, [1.0]])
        below, upto = (self.values < column).sum(axis=1), (self.values <= column).sum(axis=1)
        met = upto > below
        low, high = stated[below + met], stated[upto + ~met]
        return low + rng.random(self.n) * (high - low)

    def states(self, levels: ArrayLike) -> Bools:
        """Return which of these levels the table states."""
        wanted = np.asarray(levels, dtype=np.float64)
        return np.asarray(np.isclose(wanted[:, None], self.levels, rtol=0.0, atol=1e-9).any(axis=1))

    def central_levels(self) -> tuple[float, ...]:
        """Return the probabilities of the central intervals whose both ends are stated, increasing."""
        pairs = np.isclose(self.levels[:, None] + self.levels, 1.0, rtol=0.0, atol=1e-9) & (self.levels[:, None] < 0.5)
        return tuple(float(level) for level in np.round(1 - 2 * self.levels[pairs.any(axis=1)], 9)[::-1])

    def part(self, rows: Any) -> Quantiles:
        """Return the same forecast for some rows."""
        piece = object.__new__(Quantiles)
        object.__setattr__(piece, "levels", self.levels)
        object.__setattr__(piece, "values", self.values[rows])
        return piece
