"""Uncertainty calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.metrics.recipes import CalibrationError, binned
from calibrant.views import Entropy


def _recipe(*, n_bins: int = 15, bins: str = "width", per_class: bool = False) -> Recipe:
    return CalibrationError(Entropy("predicted" if per_class else None), binned(n_bins, bins, None), 1)


MEASURE = declare(
    Measure(
        name="uce",
        function="uncertainty_calibration_error",
        title="Uncertainty calibration error",
        notion="uncertainty calibration",
        estimates="how far the error rate is from the normalised entropy",
        bound=None,
        recipe=_recipe,
        weakness="not 0 for a calibrated model: entropy is not an error rate",
        paper="Laves et al. (2020), Calibration of Model Uncertainty for Dropout Variational Inference, eq. (15)-(18)",
        cost="O(n·K), no sort",
        state="table",
        perfect=None,
    )
)


def uncertainty_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    bins: str = "width",
    per_class: bool = False,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Measure how far the error rate is from the normalised entropy, over entropy bins.

    Uncertainty calibration; smaller is better; 0 is reachable only if entropy equals the error rate. Not 0 for a
    calibrated model: entropy is not an error rate.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    n_bins : int, default 15
        Number of bins.
    bins : {"width", "mass"}, default "width"
        Equal width or equal mass.
    per_class : bool, default False
        Mean over predicted classes instead of one group.
    sample_weight : array-like of shape (n,), optional
        Frequencies: an integer weight equals repeated rows.
    classes : array-like of shape (K,), optional
        Names of the columns, in order, when `y_true` holds names.
    space : {"proba", "logit"}, default "proba"
        What `y_proba` holds; logits go through softmax in float64.
    normalize : bool, default False
        Rescale rows to sum 1 (decimals rounded in a file).

    Returns
    -------
    float
        The value.

    Notes
    -----
    Σ_b (n_b/n)·abs(error_b − entropy_b) with entropy −Σ p log p / log K; entropy 0 belongs to the first bin.
    Cost O(n·K), no sort; state: table.

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
    return MEASURE(
        y_true,
        y_proba,
        n_bins=n_bins,
        bins=bins,
        per_class=per_class,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
