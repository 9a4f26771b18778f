"""Expected normalized calibration error of the standard deviation."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.metrics.regression.variance_bins import Binning, Bins, VarianceError


def ence_of(error: Floats, binning: Binning) -> Floats:
    """Return ENCE from squared-error sums (…, bins)."""
    predicted = np.sqrt(binning.variance / binning.w)
    observed = np.sqrt(error / binning.w)
    return np.asarray((np.abs(predicted - observed) / predicted).mean(axis=-1))  # [1] ENCE


METRIC = Metric(
    name="ence",
    title="Expected normalized calibration error",
    plain="relative gap between predicted and observed standard deviation, by ranges of the variance",
    notion="variance calibration",
    estimates="relative error of the standard deviation by variance range",
    bound="lower",
    weakness="grows with the number of bins over n even for a calibrated model (about 0.56·√(bins/n))",
    paper="Levi, Gispan, Giladi & Fetaya (2022), Evaluating and Calibrating Uncertainty Prediction in Regression "
    "Tasks, Sensors, definition of ENCE",
    cost="O(n log n)",
    state="all rows",
    range=(0.0, math.inf),
    task="regression",
    percent=False,
    default=True,
)


@METRIC.defines
def ence(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    bins: Bins = "mass",
    sample_weight: ArrayLike | None = None,
) -> Recipe:
    """Compare predicted with observed standard deviation, relatively, by ranges of the predicted variance.

    Parameters
    ----------
    n_bins : int, default 15
        Ranges of the predicted standard deviation.
    bins : {"mass", "width"}, default "mass"
        Equal numbers of rows (as published; equal variances are never split), or equal steps between the smallest
        and the largest standard deviation.

    Notes
    -----
    mean over non-empty bins of |RMV − RMSE|/RMV, RMV² the mean variance, RMSE² the mean squared error of a bin; every
    bin counts the same.

    Examples
    --------
    >>> from calibrant.metrics import ence
    >>> ence([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1)  # |1 − 0.5|/1
    0.5
    """
    return VarianceError(n_bins, bins, "std", ence_of, "ence")
