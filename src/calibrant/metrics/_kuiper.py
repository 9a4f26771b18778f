"""Kuiper calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, PathRange
from calibrant.views import View, as_view

METRIC = Metric(
    name="kuiper",
    title="Kuiper calibration error",
    plain="largest accumulated gap over any range of scores",
    notion="top-label calibration",
    estimates="the largest error accumulated between two scores",
    bound="lower",
    weakness="errors of opposite sign inside the range it finds still cancel",
    paper="Arrieta-Ibarra, Gujral, Tannen, Tygert & Xu (2022), Metrics of Calibration for Probabilistic "
    "Predictions, JMLR 23, section 2 (ECCE-R)",
    cost="O(n·K + n log n): one sort",
    state="table",
    since="0.2",
)


@METRIC.defines
def kuiper_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, view: View | str = "top-1", **rows: Unpack[RowOptions]
) -> Recipe:
    """Find the range of scores over which the largest gap of accuracy and confidence accumulates.

    Notes
    -----
    max_σ C(σ) − min_σ C(σ) with C(σ) = Σ_{s_i ≤ σ} (t_i − s_i)/n over distinct scores and C = 0 at the start; ties
    count together, so the order of rows does not matter. At least the KS error, at most twice it.

    Examples
    --------
    >>> from calibrant.metrics import kuiper_error
    >>> kuiper_error([0, 1, 0, 1], [0.6, 0.8, 0.2, 0.4], view="class-1")  # C: −0.05, 0.1, −0.05, 0
    0.15
    """
    return CalibrationError(as_view(view), PathRange(), 1)
