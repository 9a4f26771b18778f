"""Is the predicted variance the squared error to expect? ENCE, variance calibration error, ratio, and their table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints
from calibrant.core.inputs import check_names
from calibrant.core.results import Record
from calibrant.errors import input_error
from calibrant.regression.predictions import Prediction
from calibrant.regression.rows import Rows, check_rows

__all__ = [
    "VarianceTable", "average_variance", "compute_variance_table", "ence", "mean_squared_error", "se_variance_ratio",
    "variance_calibration_error",
]

Bins = Literal["mass", "width"]


@dataclass(frozen=True)
class VarianceTable(Record):
    """Average predicted variance against mean squared error, by ranges of the predicted variance (one row each)."""

    count: tuple[float, ...]
    variance: tuple[float, ...]
    mse: tuple[float, ...]

    @property
    def ratio(self) -> tuple[float, ...]:
        """Mean squared error over average variance; 1 is perfect, above 1 over-confident."""
        return tuple(e / v for e, v in zip(self.mse, self.variance, strict=True))

    def __str__(self) -> str:
        lines = ["      rows  avg variance           mse   ratio"]
        for n, v, e, r in zip(self.count, self.variance, self.mse, self.ratio, strict=True):
            lines.append(f"{n:10g}  {v:12.5g}  {e:12.5g}  {r:6.3g}")
        return "\n".join(lines)


def bin_index(key: Floats, weights: Floats | None, m: int, bins: str) -> Ints:
    """Bin of each row by its key: (lo, hi], equal keys never split.

    Mass: the j-th edge is the smallest key whose cumulative weight reaches j·W/m. Width: m equal steps of [min, max].
    """
    if bins == "width":
        low, high = float(key.min()), float(key.max())
        edges = low + (high - low) * np.arange(1, m) / m
        return np.searchsorted(edges, key, side="left")
    order = np.argsort(key, kind="stable")
    w = np.ones(len(key)) if weights is None else weights[order]
    reached = np.cumsum(w) * m
    at = np.searchsorted(reached, np.arange(1, m) * (reached[-1] / m))
    return np.searchsorted(key[order][at], key, side="left")


def bin_sums(rows: Rows, index: Ints, values: Floats) -> Floats:
    """Weighted sums by bin."""
    weighted = values if rows.weights is None else values * rows.weights
    return np.bincount(index, weighted).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Binning:
    """Non-empty bins of the predicted variance: total weight, Σv, Σv², Σ squared error."""

    w: Floats
    variance: Floats
    variance2: Floats
    error: Floats


def collect(rows: Rows, n_bins: int, bins: str, *, key: str, caller: str) -> Binning:
    """Bin the rows by variance (or its root) and sum what the errors need."""
    check_names(bins, ("mass", "width"), "bins", caller)
    if n_bins < 1:
        raise input_error("n_bins", caller, "be at least 1", str(n_bins), "15 is the default")
    values = np.sqrt(rows.variance) if key == "std" and bins == "width" else rows.variance
    index = bin_index(values, rows.weights, n_bins, bins)
    w = bin_sums(rows, index, np.ones(rows.n))
    full = w > 0
    sums = [bin_sums(rows, index, v)[full] for v in (rows.variance, rows.variance**2, rows.squared_error)]
    return Binning(w[full], *sums)


def ence_of(error: Floats, binning: Binning) -> Floats:
    """ENCE from squared-error sums (…, bins)."""
    predicted = np.sqrt(binning.variance / binning.w)
    observed = np.sqrt(error / binning.w)
    return np.asarray((np.abs(predicted - observed) / predicted).mean(axis=-1))  # [1] ENCE


def vce_of(error: Floats, binning: Binning) -> Floats:
    """Variance calibration error from squared-error sums (…, bins)."""
    return np.asarray(np.abs(error - binning.variance).sum(axis=-1) / binning.w.sum())  # [1] UCE


def ence(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *, n_bins: int = 15,
    bins: Bins = "mass", sample_weight: ArrayLike | None = None,
) -> float:
    """Compare predicted with observed spread, relatively, by ranges of the variance (expected normalised error).

    Variance calibration; smaller is better; 0 is perfect, but grows with the number of bins over n even for a
    calibrated model (about 0.56·√(bins/n)).

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    n_bins : int, default 15
        Ranges of the predicted standard deviation.
    bins : {"mass", "width"}
        Equal numbers of rows (as published; equal variances are never split), or equal steps between the smallest
        and the largest standard deviation.
    sample_weight : array of shape (n,), optional
        Frequencies.

    Returns
    -------
    float

    Notes
    -----
    mean over non-empty bins of |RMV − RMSE|/RMV, RMV² the mean variance, RMSE² the mean squared error of a bin; every
    bin counts the same. O(n log n).

    References
    ----------
    [1] Levi, Gispan, Giladi & Fetaya (2022), "Evaluating and Calibrating Uncertainty Prediction in Regression Tasks",
        Sensors, definition of ENCE.

    Examples
    --------
    >>> ence([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1)  # |1 − 0.5|/1
    0.5
    """
    rows = check_rows(y_true, mean, variance, caller="ence", sample_weight=sample_weight)
    binning = collect(rows, n_bins, bins, key="std", caller="ence")
    return float(ence_of(binning.error, binning))


def variance_calibration_error(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *, n_bins: int = 15,
    bins: Bins = "mass", sample_weight: ArrayLike | None = None,
) -> float:
    """Mean distance of predicted variance and mean squared error, by ranges of the variance.

    Variance calibration; smaller is better; 0 is perfect; in the unit of y². Known as UCE in the regression
    literature, a name the classification measure already has.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    n_bins : int, default 15
        Ranges of the predicted variance.
    bins : {"mass", "width"}
        Equal numbers of rows, or equal steps between the smallest and the largest variance (as published).
    sample_weight : array of shape (n,), optional
        Frequencies.

    Returns
    -------
    float

    Notes
    -----
    Σ_b n_b/n·|MSE_b − mean variance_b|. O(n log n).

    References
    ----------
    [1] Laves, Ihler, Fast, Kahrs & Ortmaier (2020), "Well-Calibrated Regression Uncertainty in Medical Imaging with
        Deep Learning", MIDL, definition of UCE.

    Examples
    --------
    >>> variance_calibration_error([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1)  # |0.25 − 1|
    0.75
    """
    rows = check_rows(y_true, mean, variance, caller="variance_calibration_error", sample_weight=sample_weight)
    binning = collect(rows, n_bins, bins, key="variance", caller="variance_calibration_error")
    return float(vce_of(binning.error, binning))


def se_variance_ratio(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean of squared error over predicted variance.

    1 is perfect; above 1 the model is over-confident, below 1 under-confident. Decided by the few largest ratios.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    sample_weight : array of shape (n,), optional
        Frequencies.

    Returns
    -------
    float

    Notes
    -----
    mean((y − μ)²/v). O(n).

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, section 5 and table 2.

    Examples
    --------
    >>> se_variance_ratio([2.0, 0.0], [0.0, 0.0], [1.0, 1.0])
    2.0
    """
    rows = check_rows(y_true, mean, variance, caller="se_variance_ratio", sample_weight=sample_weight)
    return rows.average(rows.ratio)


def mean_squared_error(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean squared error of the predicted mean; `variance` is checked but not used.

    Examples
    --------
    >>> mean_squared_error([2.0, 0.0], [0.0, 0.0], [1.0, 1.0])
    2.0
    """
    rows = check_rows(y_true, mean, variance, caller="mean_squared_error", sample_weight=sample_weight)
    return rows.average(rows.squared_error)


def average_variance(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean predicted variance, to be held against `mean_squared_error`; `y_true` is checked but not used.

    Examples
    --------
    >>> average_variance([2.0, 0.0], [0.0, 0.0], [1.0, 3.0])
    2.0
    """
    rows = check_rows(y_true, mean, variance, caller="average_variance", sample_weight=sample_weight)
    return rows.average(rows.variance)


def compute_variance_table(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *, n_bins: int = 15,
    bins: Bins = "mass", sample_weight: ArrayLike | None = None,
) -> VarianceTable:
    """Average predicted variance against mean squared error, by ranges of the predicted variance.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    n_bins : int, default 15
        Ranges; 1 gives the two numbers of Gruber & Buettner's table 1.
    bins : {"mass", "width"}
        Equal numbers of rows, or equal steps of the variance.
    sample_weight : array of shape (n,), optional
        Frequencies.

    Returns
    -------
    VarianceTable

    Examples
    --------
    >>> print(compute_variance_table([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1))
          rows  avg variance           mse   ratio
             2             1          0.25    0.25
    """
    caller = "compute_variance_table"
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight)
    binning = collect(rows, n_bins, bins, key="variance", caller=caller)
    columns = (binning.w, binning.variance / binning.w, binning.error / binning.w)
    return VarianceTable(*(tuple(column.tolist()) for column in columns))
