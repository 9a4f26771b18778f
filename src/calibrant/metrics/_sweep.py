"""Calibration error of a monotonic sweep."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, Sweep
from calibrant.views import View, as_view

METRIC = Metric(
    name="sweep",
    title="Monotonic-sweep calibration error",
    plain="gap between confidence and accuracy, in as many bins as keep accuracy rising",
    notion="top-label calibration",
    estimates="the top-label error TCE_p",
    bound="lower",
    weakness="the number of bins depends on the labels, so values of two models rest on different bins",
    paper="Roelofs, Cain, Shlens & Mozer (2022), Mitigating Bias in Calibration Error Estimation, AISTATS, algorithm 1",
    cost="O(n·K + n log n + n·bins)",
    state="table",
    since="0.2",
)


@METRIC.defines
def sweep_calibration_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, norm: float = 1.0, view: View | str = "top-1", **rows: Unpack[RowOptions]
) -> Recipe:
    """Measure the binned error with the most equal-mass bins whose frequencies do not decrease.

    Notes
    -----
    For b = 2, 3, … a row of rank r (from 0) is in bin min(b − 1, ⌊b·r/n⌋), rows of one score in the bin of the first;
    the last b before a frequency decreases is used (1 if already two bins do), at most 2,000.

    Examples
    --------
    >>> from calibrant.metrics import sweep_calibration_error
    >>> sweep_calibration_error([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], view="class-1")  # four bins: 0.2, 0.6, 0.4, 0.2
    0.35
    """
    return CalibrationError(as_view(view), Sweep(), norm)
