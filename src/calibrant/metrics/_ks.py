"""Kolmogorov–Smirnov calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, Cumulative
from calibrant.views import View, as_view

METRIC = Metric(
    name="ks",
    title="Kolmogorov–Smirnov calibration error",
    plain="largest accumulated gap between confidence and accuracy",
    notion="top-label calibration",
    estimates="the top-label error TCE₁",
    bound="lower",
    weakness="errors of opposite sign in neighboring scores cancel",
    paper="Gupta et al. (2021), Calibration of Neural Networks using Splines, ICLR, eq. (11)-(12)",
    cost="O(n·K + n log n): one sort",
    state="table",
    default=True,
)


@METRIC.defines
def kolmogorov_smirnov_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, view: View | str = "top-1", **rows: Unpack[RowOptions]
) -> Recipe:
    """Find the largest gap between cumulative accuracy and cumulative confidence.

    Notes
    -----
    max_σ abs(Σ_{s_i ≤ σ} (t_i − s_i))/n over distinct score values σ, so the order of ties does not matter.

    Examples
    --------
    >>> from calibrant.metrics import kolmogorov_smirnov_error
    >>> kolmogorov_smirnov_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])  # 0.8/4 after the scores 0.6
    0.2
    """
    return CalibrationError(as_view(view), Cumulative(), 1)
