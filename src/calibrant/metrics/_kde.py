"""Kernel density calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import KDE, CalibrationError
from calibrant.views import View, as_view

METRIC = Metric(
    name="kde",
    title="Kernel density calibration error",
    plain="gap between confidence and accuracy, smoothed by a kernel",
    notion="top-label calibration",
    estimates="the top-label error TCE_p",
    bound=None,
    weakness="smooths over sharp structure and depends on the bandwidth rule",
    paper="Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, eq. (6) and appendix C",
    cost="O(n log n + grid log grid)",
    state="table",
)


@METRIC.defines
def kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    norm: float = 1.0,
    bandwidth: str | float = "published",
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Measure the calibration error with kernel density estimates instead of bins.

    Parameters
    ----------
    bandwidth : {"published", "text"} or float, default "published"
        Rule behind the published numbers, the printed rule, or the half-width of the kernel.

    Notes
    -----
    ∫ abs(s − π̂(s))^p p̂(s) ds, triweight kernel, samples mirrored at the nearer end; `bandwidth="published"` is the
    rule that produced the paper's numbers. Kept at the p-th root, so norm 2 is comparable with the other errors.

    Examples
    --------
    >>> from calibrant.metrics import kde_calibration_error
    >>> round(kde_calibration_error([1, 0, 1, 1, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.55, 0.95]), 3) > 0
    True
    """
    return CalibrationError(as_view(view), KDE(bandwidth=bandwidth), norm)
