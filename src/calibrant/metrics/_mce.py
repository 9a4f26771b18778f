"""Maximum calibration error."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, binned
from calibrant.views import View, as_view

METRIC = Metric(
    name="mce",
    title="Maximum calibration error",
    plain="largest gap between confidence and accuracy in any bin",
    notion="top-label calibration",
    estimates="the largest top-label error over bins",
    bound=None,
    weakness="decided by the emptiest bin: one row can make it large",
    paper="Guo et al. (2017), On Calibration of Modern Neural Networks, ICML, eq. (5)",
    cost="O(n·K), no sort",
    state="table",
    consistent=False,
)


@METRIC.defines
def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    bins: str = "width",
    view: View | str = "top-1",
    convention: str | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Find the largest gap between accuracy and confidence over non-empty bins.

    Notes
    -----
    max_b abs(t̄_b − s̄_b) over non-empty bins.

    Examples
    --------
    >>> from calibrant.metrics import maximum_calibration_error
    >>> maximum_calibration_error([1, 0, 1, 1, 1], [0.9, 0.9, 0.8, 0.8, 0.8])
    0.4
    """
    return CalibrationError(as_view(view), binned(n_bins, bins, convention), math.inf)
