"""Measures that only the papers use, under names of their own; calibrant has the ones to work with.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, definition C.2.
[2] Laves et al. (2020), "Uncertainty Calibration Error: A New Metric for Multi-Class Classification".
"""

from __future__ import annotations

import numpy as np

from calibrant._typing import ArrayLike, Space
from calibrant.core.inputs import check_forecast
from calibrant.core.tables import Bins, mass_bins
from calibrant.estimators import Binned, CalibrationError, Cumulative
from calibrant.views import ClassK, TopLabel

__all__ = ["entropy_calibration_error", "ks_by_predicted_class", "predicted_class_ace"]


def predicted_class_ace(y_true: ArrayLike, y_proba: ArrayLike, n_bins: int = 15) -> float:
    """Return the ACE of [2]: top label, equal-mass bins for each predicted class, mean over these classes.

    Nixon's ACE (`calibrant.metrics.adaptive_calibration_error`) looks at all probabilities of every class.

    Examples
    --------
    >>> predicted_class_ace([0, 1, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.4, 0.6]], n_bins=1)
    0.375
    """
    forecast = check_forecast(y_true, y_proba, caller="predicted_class_ace")
    pairs = TopLabel().pairs(forecast)
    bins = Bins.stack([mass_bins(pairs.take(forecast.top == k), n_bins) for k in np.unique(forecast.top)])
    return float(Binned(n_bins, "mass").power(bins, 1).mean())


def ks_by_predicted_class(
    y_true: ArrayLike, y_proba: ArrayLike, *, sample_weight: ArrayLike | None = None, space: Space = "proba"
) -> float:
    """Return KS as [1] defines it: the KS error of class k over all rows, averaged over the predicted class.

    The KS error of the top label (`calibrant.metrics.kolmogorov_smirnov_error`) is bounded by TCE₁; this one is not.

    Examples
    --------
    >>> round(ks_by_predicted_class([0, 1], [[0.8, 0.2], [0.4, 0.6]]), 2)
    0.2
    """
    forecast = check_forecast(y_true, y_proba, caller="ks_by_predicted_class", sample_weight=sample_weight, space=space)
    weight = np.ones(forecast.n) if forecast.weights is None else forecast.weights
    share = np.bincount(forecast.top, weight, forecast.n_classes) / weight.sum()
    errors = [CalibrationError(ClassK(k), Cumulative()).value(forecast) if p > 0 else 0.0 for k, p in enumerate(share)]
    return float(share @ np.array(errors))


def entropy_calibration_error(y_true: ArrayLike, y_proba: ArrayLike) -> float:
    """Return E |H(q) − H(p)| of [2] (eq. 8-10): q are the label frequencies among rows predicted alike, in nats.

    0 where the entropy of every forecast is that of the labels of its predicted class (eq. 9).

    Examples
    --------
    >>> entropy_calibration_error([0, 0, 1], [[2 / 3, 1 / 3]] * 3)
    0.0
    """
    forecast = check_forecast(y_true, y_proba, caller="entropy_calibration_error")
    p = np.asarray(forecast.proba(), dtype=np.float64)
    counts = np.zeros((forecast.n_classes, forecast.n_classes))
    np.add.at(counts, (forecast.top, forecast.codes), 1.0)
    q = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return float(np.abs(_entropy(q)[forecast.top] - _entropy(p)).mean())


def _entropy(p: np.ndarray) -> np.ndarray:
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1))
