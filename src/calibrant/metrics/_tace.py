"""Thresholded adaptive calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.inputs import check_flag
from calibrant.estimators import CalibrationError, binned
from calibrant.metrics.recipes import class_reduction
from calibrant.views import Classwise, Pooled

METRIC = Metric(
    name="tace",
    title="Thresholded adaptive calibration error",
    plain="gap between probability and frequency above a threshold",
    notion="class-wise calibration",
    estimates="the mean class-wise error of order 1 where the probability exceeds the threshold",
    bound="lower",
    weakness="the value depends on the threshold more than on the model",
    paper="Nixon et al. (2019), Measuring Calibration in Deep Learning, CVPR workshops, section 5.3",
    cost="O(n·K log n): one sort per class",
    state="table",
)


@METRIC.defines
def thresholded_adaptive_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    threshold: float = 0.01,
    pooled: bool = False,
    convention: str | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Average the error over equal-mass ranges of the probabilities above a threshold.

    Parameters
    ----------
    threshold : float, default 0.01
        Only probabilities above it count.
    pooled : bool, default False
        Put all classes into one group instead of averaging over classes.

    Notes
    -----
    As ACE on pairs with p_k > threshold only (the text prints ≤, the sentence before it and the authors' code say >);
    a class with none counts 0.

    Examples
    --------
    >>> from calibrant.metrics import thresholded_adaptive_calibration_error
    >>> thresholded_adaptive_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6], n_bins=2)
    0.4
    """
    check_flag(pooled, "pooled", "tace")
    reduce = class_reduction(convention, "mean")
    view = Pooled(threshold) if pooled else Classwise(reduce, threshold)
    return CalibrationError(view, binned(n_bins, "mass", convention, average="range"), 1)
