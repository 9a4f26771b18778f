"""Static calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, binned
from calibrant.metrics.recipes import class_reduction
from calibrant.views import Classwise

METRIC = Metric(
    name="sce",
    title="Static calibration error",
    plain="gap between probability and frequency, mean over classes",
    notion="class-wise calibration",
    estimates="the mean class-wise error of order 1",
    bound="lower",
    weakness="tiny for many classes, because most class probabilities are near 0",
    paper="Nixon et al. (2019), Measuring Calibration in Deep Learning, CVPR workshops, section 5.1",
    cost="O(n·K), no sort",
    state="table",
)


@METRIC.defines
def static_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    convention: str | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Average the binned error of every class probability over classes.

    Notes
    -----
    (1/K) Σ_k Σ_b (n_kb/n)·abs(t̄_kb − s̄_kb) over equal-width bins.

    Examples
    --------
    >>> from calibrant.metrics import static_calibration_error
    >>> static_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])
    0.4
    """
    reduce = class_reduction(convention, "mean")
    return CalibrationError(Classwise(reduce), binned(n_bins, "width", convention), 1)
