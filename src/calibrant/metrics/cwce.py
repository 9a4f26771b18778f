"""Class-wise calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.metrics.recipes import CalibrationError, binned, class_reduction
from calibrant.views import Classwise


def _recipe(
    *, norm: float = 2.0, n_bins: int = 15, bins: str = "width", debias: bool = False, convention: str | None = None
) -> Recipe:
    reduce = class_reduction(convention, "sum")
    return CalibrationError(Classwise(reduce), binned(n_bins, bins, convention, debias=debias), norm)


MEASURE = declare(
    Measure(
        name="cwce",
        function="classwise_calibration_error",
        title="Class-wise calibration error",
        notion="class-wise calibration",
        estimates="the class-wise error CWCE₂",
        bound="lower",
        recipe=_recipe,
        weakness="grows with n_bins·K/n by noise alone; sums over classes, so not comparable across K",
        paper="Kull et al. (2019), Beyond temperature scaling, NeurIPS; Gruber & Buettner (2022), section 3",
        cost="O(n·K), no sort",
        state="table",
        range=(0.0, 2.0),
        panel=True,
    )
)


def classwise_calibration_error(
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
    """Measure the calibration error of every class probability, summed over classes.

    Class-wise calibration; smaller is better; 0 is perfect. Grows with n_bins·K/n by noise alone; sums over classes,
    so not comparable across K.

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
    (Σ_k CE_k^p)^(1/p) with CE_k the binned error of class k against all others. A class absent from `y_true` counts
    with frequency 0.
    Cost O(n·K), no sort; state: table.

    References
    ----------
    [1] Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores, NeurIPS, section 3.

    Examples
    --------
    >>> from calibrant.metrics import classwise_calibration_error
    >>> classwise_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6], norm=1)  # both classes 0.4
    0.8
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
