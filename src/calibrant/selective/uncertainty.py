"""How unsure a forecast is: normalized entropy, 1 − confidence, or a score of the caller's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import Forecast, check_forecast, check_matrix, check_names, to_array, to_float
from calibrant.core.tables import SLACK
from calibrant.core.vectors import normalized_entropy
from calibrant.errors import input_error

#: The two scores every forecast has.
KINDS = ("entropy", "confidence")


def uncertainty(y_proba: ArrayLike, *, by: str = "entropy", space: Space = "proba") -> Floats:
    """Score how unsure each forecast is, from 0 (certain) to 1.

    Parameters
    ----------
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or logits with ``space="logit"``.
    by : {"entropy", "confidence"}, default="entropy"
        Normalized entropy −Σ p log p / log K, or 1 − max p.
    space : {"proba", "logit"}, default="proba"
        What `y_proba` holds.

    Returns
    -------
    array of shape (n,)
        Float64 in [0, 1].

    Notes
    -----
    The entropy looks at all classes, the confidence at the first only. O(n·K).

    References
    ----------
    .. [1] "Uncertainty Calibration Error: A New Metric for Multi-Class Classification" (2020), eq. (11).

    Examples
    --------
    >>> uncertainty([[0.5, 0.5], [1.0, 0.0]])
    array([1., 0.])
    >>> uncertainty([[0.8, 0.2]], by="confidence").round(3)
    array([0.2])
    """
    matrix = check_matrix(y_proba, "y_proba", "uncertainty")
    nobody = np.zeros(len(matrix), dtype=np.int64)
    return forecast_uncertainty(check_forecast(nobody, matrix, caller="uncertainty", space=space), by, "uncertainty")


def forecast_uncertainty(forecast: Forecast, by: Any, caller: str) -> Floats:
    """Return the named score of checked predictions, or check a score given as an array."""
    if isinstance(by, str):
        check_names(by, KINDS, "by", caller)
        if by == "entropy":
            return normalized_entropy(forecast)  # [1] eq. (11)
        return 1.0 - forecast.top_score.astype(np.float64)
    return check_scores(by, "by", caller, forecast.n)


def check_scores(value: ArrayLike, argument: str, caller: str, n: int | None = None) -> Floats:
    """Return finite uncertainty scores, one per row."""
    array = to_array(value, argument, caller)
    if array.ndim != 1 or (n is not None and len(array) != n):
        rows = "one score per row" if n is None else f"one score for each of the {n} rows"
        raise input_error(argument, caller, f"hold {rows}", f"shape {array.shape}", "larger must mean less sure")
    scores = to_float(array, argument, caller).astype(np.float64)
    if not len(scores) or not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores))) if len(scores) else -1
        got = f"{scores[row]} at row {row}" if row >= 0 else "no rows"
        raise input_error(argument, caller, "hold finite scores", got, "drop or fix the row")
    return scores


def at_most(score: Floats, threshold: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether a score is kept at a threshold; up to 2⁻²⁴ above it counts as on it, as with bin edges."""
    return np.asarray(score <= threshold + SLACK)
