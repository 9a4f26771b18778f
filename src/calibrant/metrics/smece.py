"""Smooth calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.estimators import Smooth
from calibrant.metrics.recipes import CalibrationError
from calibrant.views import View, as_view


def _recipe(*, view: View | str = "top-1") -> Recipe:
    return CalibrationError(as_view(view), Smooth(), 1)


MEASURE = declare(
    Measure(
        name="smece",
        function="smooth_calibration_error",
        title="Smooth calibration error",
        notion="top-label calibration",
        estimates="the distance from calibration, up to constants",
        bound="lower",
        recipe=_recipe,
        weakness="errors on scales below its own value are smoothed away",
        paper="Błasiok & Nakkiran (2023), Smooth ECE, ICLR 2024",
        cost="O(n log n + grid log grid)",
        state="table",
    )
)


def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Measure the calibration error at the one smoothing width that equals it.

    Any one-dimensional view, top label by default; smaller is better; 0 is perfect; no bins to choose. Errors on
    scales below its own value are smoothed away.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    view : View or str, default "top-1"
        Which pairs (score, outcome) are judged: a view or its name.
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
    The fixed point σ = Σabs(K_σ * (t − s))/n with a Gaussian kernel reflected at 0 and 1, on a grid of 8 192
    midpoints.
    Cost O(n log n + grid log grid); state: table.

    References
    ----------
    [1] Błasiok & Nakkiran (2023), Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing, section 3.

    Examples
    --------
    >>> from calibrant.metrics import smooth_calibration_error
    >>> round(smooth_calibration_error([1, 0] * 50, [0.5] * 100), 6)
    0.0
    """
    return MEASURE(
        y_true,
        y_proba,
        view=view,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
