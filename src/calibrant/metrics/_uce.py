"""Uncertainty calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.inputs import check_flag
from calibrant.estimators import CalibrationError, binned
from calibrant.views import Entropy

METRIC = Metric(
    name="uce",
    title="Uncertainty calibration error",
    plain="gap between entropy and error rate",
    notion="uncertainty calibration",
    estimates="how far the error rate is from the normalized entropy",
    bound=None,
    weakness="not 0 for a calibrated model: entropy is not an error rate",
    paper="Laves et al. (2020), Uncertainty Calibration Error, eq. (15)-(18)",
    cost="O(n·K), no sort",
    state="table",
    perfect=None,
)


@METRIC.defines
def uncertainty_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    bins: str = "width",
    per_class: bool = False,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Measure how far the error rate is from the normalized entropy, over entropy bins.

    Parameters
    ----------
    per_class : bool, default False
        Mean over predicted classes instead of one group.

    Notes
    -----
    Σ_b (n_b/n)·abs(error_b − entropy_b) with entropy −Σ p log p / log K; entropy 0 belongs to the first bin.

    References
    ----------
    [1] Laves et al. (2020), Uncertainty Calibration Error: A New Metric for Multi-Class Classification, eq.
    (15)-(18).

    Examples
    --------
    >>> from calibrant.metrics import uncertainty_calibration_error
    >>> round(uncertainty_calibration_error([0, 0, 0, 1, 1], [[0.6, 0.4]] * 5), 6)  # |0.4 − 0.970951|
    0.570951
    """
    check_flag(per_class, "per_class", "uce")
    return CalibrationError(Entropy("predicted" if per_class else None), binned(n_bins, bins, None), 1)
