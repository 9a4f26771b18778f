"""Thresholded adaptive calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.metrics.recipes import CalibrationError, binned, class_reduction
from calibrant.views import Classwise, Pooled


def _recipe(
    *, n_bins: int = 15, threshold: float = 0.01, pooled: bool = False, convention: str | None = None
) -> Recipe:
    reduce = class_reduction(convention, "mean")
    view = Pooled(threshold) if pooled else Classwise(reduce, threshold)
    return CalibrationError(view, binned(n_bins, "mass", convention, average="range"), 1)


MEASURE = declare(
    Measure(
        name="tace",
        function="thresholded_adaptive_calibration_error",
        title="Thresholded adaptive calibration error",
        notion="class-wise calibration",
        estimates="the mean class-wise error of order 1 where the probability exceeds the threshold",
        bound="lower",
        recipe=_recipe,
        weakness="the value depends on the threshold more than on the model",
        paper="Nixon et al. (2019), Measuring Calibration in Deep Learning, CVPR workshops",
        cost="O(n·K log n): one sort per class",
        state="table",
    )
)


def thresholded_adaptive_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    threshold: float = 0.01,
    pooled: bool = False,
    convention: str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Average the error over equal-mass ranges of the probabilities above a threshold.

    Class-wise calibration; smaller is better; 0 is perfect. The value depends on the threshold more than on the
    model.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    n_bins : int, default 15
        Number of bins.
    threshold : float, default 0.01
        Only probabilities above it count.
    pooled : bool, default False
        Put all classes into one group instead of averaging over classes.
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
    As ACE on pairs with p_k > threshold only (the text prints ≤, the sentence before it and the authors' code say >);
    a class with none counts 0.
    Cost O(n·K log n): one sort per class; state: table.

    References
    ----------
    [1] Nixon et al. (2019), Measuring Calibration in Deep Learning, CVPR workshops, section 4.

    Examples
    --------
    >>> from calibrant.metrics import thresholded_adaptive_calibration_error
    >>> thresholded_adaptive_calibration_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6], n_bins=2)
    0.4
    """
    return MEASURE(
        y_true,
        y_proba,
        n_bins=n_bins,
        threshold=threshold,
        pooled=pooled,
        convention=convention,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
