"""Expected calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, binned
from calibrant.views import View, as_view

METRIC = Metric(
    name="ece",
    title="Expected calibration error",
    plain="gap between confidence and accuracy",
    notion="top-label calibration",
    estimates="the top-label error TCE₁",
    bound="lower",
    weakness="biased upwards at small n (see the if-calibrated column) and dependent on the bins",
    paper="Guo et al. (2017), On Calibration of Modern Neural Networks, ICML, eq. (3)",
    cost="O(n·K), no sort",
    state="table",
    default=True,
)


@METRIC.defines
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    bins: str = "width",
    view: View | str = "top-1",
    convention: str | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Measure how far accuracy is from confidence, averaged over confidence bins.

    Notes
    -----
    Σ_b (n_b/n)·abs(t̄_b − s̄_b) over 15 bins (lo, hi], the first closed; empty bins contribute nothing. Equal scores
    near an edge: see `calibrant.core.tables`.

    Examples
    --------
    >>> from calibrant.metrics import expected_calibration_error
    >>> expected_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])  # (2·|0.5 − 0.9| + 2·|1 − 0.6|)/4
    0.4
    """
    return CalibrationError(as_view(view), binned(n_bins, bins, convention), 1)
