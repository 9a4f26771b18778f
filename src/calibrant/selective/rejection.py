"""Rejection: the error of what is kept when unsure forecasts are refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import check_forecast, to_array, to_float
from calibrant.core.moments import wilson
from calibrant.core.options import check_share
from calibrant.core.results import Record
from calibrant.core.weights import observations
from calibrant.errors import input_error
from calibrant.selective.uncertainty import at_most, forecast_uncertainty

#: The UCE paper's thresholds 1.00, 0.95, …, 0.05.
THRESHOLDS = np.arange(20, 0, -1) / 20


@dataclass(frozen=True)
class RejectionCurve(Record):
    """Error and coverage of the kept rows by threshold, with Wilson bounds of the error (nan: no row is kept)."""

    threshold: Floats
    error: Floats
    coverage: Floats
    low: Floats
    high: Floats
    level: float
    n: int
    #: How weights were read.
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = zip(self.threshold, 100 * self.coverage, self.error, self.low, self.high, strict=True)
        lines = ["{:9.2f} {:5.1f}%  {:.4f} [{:.4f}, {:.4f}]".format(*row) for row in rows]
        return "\n".join(["threshold   kept    error", *lines, *(f"Note: {note}." for note in self.notes)])


def rejection_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    by: str | ArrayLike = "entropy",
    thresholds: ArrayLike | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> RejectionCurve:
    """Compute the error of the forecasts whose uncertainty does not exceed a threshold.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or logits with ``space="logit"``.
    by : {"entropy", "confidence"} or array of shape (n,), default="entropy"
        Normalized entropy, 1 − confidence, or any score that is larger for less sure rows.
    thresholds : array-like, optional
        By default 1.00, 0.95, …, 0.05, the UCE paper's.
    level : float, default=0.95
        Of the Wilson interval of each error.
    sample_weight : array-like of shape (n,), optional
        Frequencies; weights that are no counts are worth Kish's number of rows.
    classes, space
        As everywhere.

    Returns
    -------
    RejectionCurve
        Arrays in the order of the thresholds. Where no row is kept, error and bounds are nan and coverage is 0.

    Notes
    -----
    error(τ) = Σ w·1[u ≤ τ, wrong] / Σ w·1[u ≤ τ]. For a calibrated model the error of rows kept by 1 − confidence
    ≤ τ is below τ; for entropy this holds roughly when there are many classes. O(n log n).

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), section 5.

    Examples
    --------
    >>> p = [[0.95, 0.05], [0.9, 0.1], [0.6, 0.4], [0.55, 0.45]]
    >>> curve = rejection_curve([0, 0, 1, 0], p, by="confidence", thresholds=[1.0, 0.41, 0.1])
    >>> curve.error.round(3), curve.coverage
    (array([0.25 , 0.333, 0.   ]), array([1.  , 0.75, 0.5 ]))
    """
    caller = "rejection_curve"
    forecast = check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    check_share(level, "level", caller)
    given = THRESHOLDS if thresholds is None else to_array(thresholds, "thresholds", caller)
    grid = np.asarray(to_float(given, "thresholds", caller), dtype=np.float64)
    if grid.ndim != 1 or not np.isfinite(grid).all():
        raise input_error("thresholds", caller, "be a list of finite numbers", repr(thresholds), "leave it out")
    score = forecast_uncertainty(forecast, by, caller)
    weight = np.ones(forecast.n) if forecast.weights is None else forecast.weights
    wrong = weight * ~forecast.hit
    columns = np.stack([weight, wrong, weight if forecast.counts else weight**2])
    kept, errors, squares = np.array([columns[:, at_most(score, t)].sum(axis=1) for t in grid]).reshape(-1, 3).T
    error, n = (
        np.divide(a, b, out=np.full(len(grid), np.nan), where=b > 0) for a, b in ((errors, kept), (kept**2, squares))
    )
    low, high = wilson(error, n, level)
    return RejectionCurve(
        grid.copy(), error, kept / weight.sum(), low, high, level, observations(forecast), forecast.notes
    )
