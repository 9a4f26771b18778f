"""Static calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.metrics.recipes import CalibrationError, binned, class_reduction
from calibrant.views import Classwise


def _recipe(*, n_bins: int = 15, convention: str | None = None) -> Recipe:
    reduce = class_reduction(convention, "mean")
    return CalibrationError(Classwise(reduce), binned(n_bins, "width", convention), 1)


MEASURE = declare(
    Measure(
        name="sce",
        function="static_calibration_error",
        title="Static calibration error",
        notion="class-wise calibration",
        estimates="the mean class-wise error of order 1",
        bound="lower",
        recipe=_recipe,
        weakness="tiny for many classes, because most class probabilities are near 0",
        paper="Nixon et al. (2019), Measuring Calibration in Deep Learning, CVPR workshops",
        cost="O(n·K), no sort",
        state="table",
    )
)


def static_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    convention: str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Average the binned error of every class probability over classes.

    Class-wise calibration; smaller is better; 0 is perfect. Tiny for many classes, because most class probabilities
    are near 0.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    n_bins : int, default 15
        Number of bins.
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
    (1/K) Σ_k Σ_b (n_kb/n)·abs(t̄_kb − s̄_kb) over equal-width bins.
    Cost O(n·K), no sort; state: table.

    References
    ----------
    [1] Nixon et al. (2019), Measuring Calibration in Deep Learning, CVPR workshops, section 4.

    Examples
    --------
    >>> from calibrant.metrics import static_calibration_error
    >>> static_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])
    0.4
    """
    return MEASURE(
        y_true,
        y_proba,
        n_bins=n_bins,
        convention=convention,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
