"""Class-wise calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.estimators import CalibrationError, binned
from calibrant.metrics.recipes import class_reduction
from calibrant.views import Classwise

METRIC = Metric(
    name="cwce",
    title="Class-wise calibration error",
    plain="gap between probability and frequency, class by class",
    notion="class-wise calibration",
    estimates="the class-wise error CWCE₂",
    bound="lower",
    weakness="grows with n_bins·K/n by noise alone; sums over classes, so not comparable across K",
    paper="Kull et al. (2019), Beyond temperature scaling, NeurIPS; Gruber & Buettner (2022), section 3",
    cost="O(n·K), no sort",
    state="table",
    range=(0.0, 2.0),
    default=True,
)


@METRIC.defines
def classwise_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    norm: float = 2.0,
    n_bins: int = 15,
    bins: str = "width",
    debias: bool = False,
    convention: str | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Measure the calibration error of every class probability, summed over classes.

    Parameters
    ----------
    debias : bool, default False
        Subtract the sampling noise of each bin (norm 2 only; weights must be counts).

    Notes
    -----
    (Σ_k CE_k^p)^(1/p) with CE_k the binned error of class k against all others. A class absent from `y_true` counts
    with frequency 0.

    References
    ----------
    [1] Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores, NeurIPS, section 3.

    Examples
    --------
    >>> from calibrant.metrics import classwise_calibration_error
    >>> classwise_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6], norm=1)  # both classes 0.4
    0.8
    """
    reduce = class_reduction(convention, "sum")
    return CalibrationError(Classwise(reduce), binned(n_bins, bins, convention, debias=debias), norm)
