"""Maximum mean calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, Kernel
from calibrant.views import View, as_view

METRIC = Metric(
    name="mmce",
    title="Maximum mean calibration error",
    plain="gap between confidence and accuracy, compared by a kernel",
    notion="top-label calibration",
    estimates="the top-label error TCE₁",
    bound="lower",
    weakness="its scale depends on the kernel, so compare it only with itself",
    paper="Kumar, Sarawagi & Jain (2018), Trainable Calibration Measures for Neural Networks from Kernel Mean "
    "Embeddings, ICML, eq. (4)",
    cost="O(n·K + n log n), exact",
    state="table",
    default=True,
)


@METRIC.defines
def maximum_mean_calibration_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, view: View | str = "top-1", width: float = 0.4, **rows: Unpack[RowOptions]
) -> Recipe:
    """Measure calibration by a kernel over pairs of rows, without bins.

    Parameters
    ----------
    width : float, default 0.4
        Length scale of the Laplace kernel.

    Notes
    -----
    √(Σ_ij (t_i − s_i)(t_j − s_j) e^{−abs(s_i − s_j)/width})/n, the diagonal included; one running sum over sorted
    scores gives it exactly.

    Examples
    --------
    >>> from calibrant.metrics import maximum_mean_calibration_error
    >>> maximum_mean_calibration_error([1, 0], [0.7, 0.7])  # residuals 0.3 and −0.7 at one score: |−0.4|/2
    0.2
    """
    return CalibrationError(as_view(view), Kernel(width), 1)
