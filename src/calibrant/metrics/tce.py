"""Top-label calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.metrics.recipes import CalibrationError, binned
from calibrant.views import TopLabel


def _recipe(
    *, norm: float = 2.0, n_bins: int = 15, bins: str = "width", debias: bool = False, convention: str | None = None
) -> Recipe:
    return CalibrationError(TopLabel(), binned(n_bins, bins, convention, debias=debias), norm)


MEASURE = declare(
    Measure(
        name="tce",
        function="top_label_calibration_error",
        title="Top-label calibration error",
        notion="top-label calibration",
        estimates="the top-label error TCE_p",
        bound="lower",
        recipe=_recipe,
        weakness="the plug-in value is biased upwards at small n (debias=True removes most of it for norm 2)",
        paper="Kumar, Liang & Ma (2019), Verified Uncertainty Calibration, NeurIPS",
        cost="O(n·K); mass bins sort once",
        state="table",
    )
)


def top_label_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    norm: float = 2.0,
    n_bins: int = 15,
    bins: str = "width",
    debias: bool = False,
    convention: str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Measure the top-label calibration error in any norm, optionally debiased.

    Top-label calibration; smaller is better; 0 is perfect. The plug-in value is biased upwards at small n
    (debias=True removes most of it for norm 2).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    norm : float, default 2.0
        p ≥ 1, or inf for the maximum.
    n_bins : int, default 15
        Number of bins.
    bins : {"width", "mass"}, default "width"
        Equal width or equal mass.
    debias : bool, default False
        Subtract the sampling noise of each bin (norm 2 only; weights must be counts).
    convention : str or None, default None
        Another code's bin edges by name: "nixon", "kull", "gruber", "torchmetrics", "netcal".
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
    (Σ_b (n_b/n)·abs(t̄_b − s̄_b)^p)^(1/p); debiased (p = 2): t̄_b(1 − t̄_b)/(n_b − 1) is subtracted per bin, bins
    with n_b ≤ 1 contribute 0, the sum is clipped at 0.
    Cost O(n·K); mass bins sort once; state: table.

    References
    ----------
    [1] Kumar, Liang & Ma (2019), Verified Uncertainty Calibration, NeurIPS, definition 2.3 and section 5.

    Examples
    --------
    >>> from calibrant.metrics import top_label_calibration_error
    >>> top_label_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])  # √((2·0.4² + 2·0.4²)/4)
    0.4
    """
    return MEASURE(
        y_true,
        y_proba,
        norm=norm,
        n_bins=n_bins,
        bins=bins,
        debias=debias,
        convention=convention,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
