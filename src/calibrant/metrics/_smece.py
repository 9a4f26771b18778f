"""Smooth calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, Smooth
from calibrant.views import View, as_view

METRIC = Metric(
    name="smece",
    title="Smooth calibration error",
    plain="gap between confidence and accuracy, smoothed at its own scale",
    notion="top-label calibration",
    estimates="the distance from calibration, up to constants",
    bound="lower",
    weakness="errors on scales below its own value are smoothed away",
    paper="Błasiok & Nakkiran (2023), Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing, section 3",
    cost="O(n log n + grid log grid)",
    state="table",
)


@METRIC.defines
def smooth_calibration_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, view: View | str = "top-1", **rows: Unpack[RowOptions]
) -> Recipe:
    """Measure the calibration error at the one smoothing width that equals it.

    Notes
    -----
    The fixed point σ = Σabs(K_σ * (t − s))/n with a Gaussian kernel reflected at 0 and 1, on a grid of 8,192
    midpoints.

    Examples
    --------
    >>> from calibrant.metrics import smooth_calibration_error
    >>> round(smooth_calibration_error([1, 0] * 50, [0.5] * 100), 6)
    0.0
    """
    return CalibrationError(as_view(view), Smooth(), 1)
