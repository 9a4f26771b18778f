"""Ranges of the predicted variance: what its calibration errors and its table are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.declare import Recipe
from calibrant.core.inputs import check_n_bins, check_names
from calibrant.core.resampling import Null
from calibrant.core.rows import Rows
from calibrant.core.weights import mass_edges

__all__ = ["Binning", "Bins", "VarianceError", "bin_index", "collect"]

Bins = Literal["mass", "width"]


def bin_index(key: Floats, weights: Floats | None, m: int, bins: str) -> Ints:
    """Return the bin of each row by its key: (lo, hi], equal keys never split.

    Mass: the j-th edge is the smallest key whose cumulative weight reaches j·W/m. Width: m equal steps of [min, max].
    """
    if bins == "width":
        low, high = float(key.min()), float(key.max())
        edges = low + (high - low) * np.arange(1, m) / m
        return np.searchsorted(edges, key, side="left")
    order = np.argsort(key, kind="stable")
    w = np.ones(len(key)) if weights is None else weights[order]
    return np.searchsorted(key[order][mass_edges(w, m)], key, side="left")


@dataclass(frozen=True, eq=False)
class Binning:
    """Non-empty bins of the predicted variance: total weight, Σv, Σv², Σ squared error."""

    w: Floats
    variance: Floats
    variance2: Floats
    error: Floats

    def draw_errors(self, n_resamples: int, rng: np.random.Generator) -> Floats:
        """Draw the squared-error sums of the bins under calibration, shape (n_resamples, bins).

        Σ v z² is a weighted sum of χ²₁; the gamma distribution with its mean Σv and variance 2Σv² is exact for equal
        variances, and within a bin they are nearly equal.
        """
        scale = 2 * self.variance2 / self.variance
        return rng.gamma(self.variance / scale, scale, (n_resamples, len(scale)))


def collect(rows: Rows, n_bins: int, bins: str, *, key: str = "variance") -> Binning:
    """Bin the rows by variance (or its root) and sum what the errors need."""
    values = np.sqrt(rows.variance) if key == "std" and bins == "width" else rows.variance
    index = bin_index(values, rows.weights, n_bins, bins)

    def sums(column: Floats) -> Floats:
        weighted = column if rows.weights is None else column * rows.weights
        return np.bincount(index, weighted).astype(np.float64)

    w = sums(np.ones(rows.n))
    full = w > 0
    columns = (rows.variance, rows.variance**2, rows.squared_error)
    return Binning(w[full], *(sums(column)[full] for column in columns))


def check_bins(n_bins: int, bins: str, caller: str) -> None:
    """Refuse an unknown rule or fewer than one bin."""
    check_names(bins, ("mass", "width"), "bins", caller)
    check_n_bins(n_bins, caller)


@dataclass(frozen=True)
class VarianceError(Recipe):
    """A distance of predicted variance and squared error by ranges; `error` takes squared-error sums (…, bins)."""

    n_bins: int
    bins: Bins
    key: Literal["std", "variance"]
    error: Callable[[Floats, Binning], Floats]
    caller: str

    def __post_init__(self) -> None:
        check_bins(self.n_bins, self.bins, self.caller)

    def fill(self, forecast: Rows) -> Binning:
        """Return the bins; their edges come from all rows."""
        return collect(forecast, self.n_bins, self.bins, key=self.key)

    def finish(self, state: Binning) -> Floats:
        """Return the error."""
        return self.error(state.error, state)

    def null(self, forecast: Rows, n_resamples: int, rng: np.random.Generator) -> Null | None:
        """Draw the squared-error sums of the bins; None for forecasts that are not normal."""
        if not forecast.is_normal:
            return None
        binning = self.fill(forecast)
        return Null(self.error(binning.draw_errors(n_resamples, rng), binning))
