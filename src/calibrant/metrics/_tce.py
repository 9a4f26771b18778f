"""Top-label calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, binned
from calibrant.views import View, as_view

METRIC = Metric(
    name="tce",
    title="Top-label calibration error",
    plain="gap between confidence and accuracy, root mean square",
    notion="top-label calibration",
    estimates="the top-label error TCE_p",
    bound="lower",
    weakness="the plug-in value is biased upwards at small n (debias=True removes most of it for norm 2)",
    paper="Kumar, Liang & Ma (2019), Verified Uncertainty Calibration, NeurIPS, definition 2.3 and section 5",
    cost="O(n·K); mass bins sort once",
    state="table",
)


@METRIC.defines
def top_label_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    norm: float = 2.0,
    n_bins: int = 15,
    bins: str = "width",
    debias: bool = False,
    view: View | str = "top-1",
    convention: str | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Measure the top-label calibration error in any norm, optionally debiased.

    Parameters
    ----------
    debias : bool, default False
        Subtract the sampling noise of each bin (norm 2 only; weights must be counts).
    view : str or View, default "top-1"
        Another score may be judged, for example ``"class-1"``.

    Notes
    -----
    (Σ_b (n_b/n)·abs(t̄_b − s̄_b)^p)^(1/p); debiased (p = 2): t̄_b(1 − t̄_b)/(n_b − 1) is subtracted per bin, bins
    with n_b ≤ 1 contribute 0, the sum is clipped at 0.

    Examples
    --------
    >>> from calibrant.metrics import top_label_calibration_error
    >>> top_label_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])  # √((2·0.4² + 2·0.4²)/4)
    0.4
    """
    return CalibrationError(as_view(view), binned(n_bins, bins, convention, debias=debias), norm)
