"""Adaptive calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.inputs import check_flag
from calibrant.estimators import CalibrationError, binned
from calibrant.metrics.recipes import class_reduction
from calibrant.views import Classwise, Pooled

METRIC = Metric(
    name="ace",
    title="Adaptive calibration error",
    plain="gap between probability and frequency over equal-mass ranges",
    notion="class-wise calibration",
    estimates="the mean class-wise error of order 1 over equal-mass ranges",
    bound="lower",
    weakness="for many classes nearly all ranges lie at tiny probabilities and hide the rest",
    paper="Nixon et al. (2019), Measuring Calibration in Deep Learning, CVPR workshops, section 5.2",
    cost="O(n·K log n): one sort per class",
    state="table",
)


@METRIC.defines
def adaptive_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    pooled: bool = False,
    convention: str | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Average the error of every class probability over equal-mass ranges and classes.

    Parameters
    ----------
    pooled : bool, default False
        Put all classes into one group instead of averaging over classes.

    Notes
    -----
    (1/K) Σ_k (1/R_k) Σ_r abs(t̄_kr − s̄_kr) over the R_k non-empty ranges of class k; range edges are order
    statistics and equal scores are never split.

    Examples
    --------
    >>> from calibrant.metrics import adaptive_calibration_error
    >>> adaptive_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6], n_bins=2)
    0.4
    """
    check_flag(pooled, "pooled", "ace")
    reduce = class_reduction(convention, "mean")
    estimator = binned(n_bins, "mass", convention, average="range")
    return CalibrationError(Pooled() if pooled else Classwise(reduce), estimator, 1)
