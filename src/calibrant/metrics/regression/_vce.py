"""Variance calibration error."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.metrics.regression.variance_bins import Binning, Bins, VarianceError


def vce_of(error: Floats, binning: Binning) -> Floats:
    """Return the variance calibration error from squared-error sums (…, bins)."""
    return np.asarray(np.abs(error - binning.variance).sum(axis=-1) / binning.w.sum())  # [1] UCE


METRIC = Metric(
    name="vce",
    title="Variance calibration error",
    plain="gap between predicted variance and squared error, by ranges of the variance",
    notion="variance calibration",
    estimates="error of the variance by variance range",
    bound="lower",
    weakness="decided by the rows with the largest variances; grows with the number of bins over n by noise alone",
    paper="Laves, Ihler, Fast, Kahrs & Ortmaier (2020), Well-Calibrated Regression Uncertainty in Medical Imaging "
    "with Deep Learning, MIDL, definition of UCE",
    cost="O(n log n)",
    state="all rows",
    range=(0.0, math.inf),
    unit="y²",
    task="regression",
    percent=False,
    default=True,
)


@METRIC.defines
def variance_calibration_error(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    bins: Bins = "mass",
    sample_weight: ArrayLike | None = None,
) -> Recipe:
    """Measure how far predicted variance and mean squared error are apart, by ranges of the variance.

    Parameters
    ----------
    n_bins : int, default 15
        Ranges of the predicted variance.
    bins : {"mass", "width"}, default "mass"
        Equal numbers of rows, or equal steps between the smallest and the largest variance (as published).

    Notes
    -----
    Σ_b n_b/n·|MSE_b − mean variance_b|. Known as UCE in the regression literature, a name a metric of class
    probabilities already has.

    Examples
    --------
    >>> from calibrant.metrics import variance_calibration_error
    >>> variance_calibration_error([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1)  # |0.25 − 1|
    0.75
    """
    return VarianceError(n_bins, bins, "variance", vce_of, "variance_calibration_error")
