"""Maximum calibration error."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.metrics.recipes import CalibrationError, binned
from calibrant.views import View, as_view


def _recipe(
    *, n_bins: int = 15, bins: str = "width", view: View | str = "top-1", convention: str | None = None
) -> Recipe:
    return CalibrationError(as_view(view), binned(n_bins, bins, convention), math.inf)


MEASURE = declare(
    Measure(
        name="mce",
        function="maximum_calibration_error",
        title="Maximum calibration error",
        notion="top-label calibration",
        estimates="the largest top-label error over bins",
        bound=None,
        recipe=_recipe,
        weakness="decided by the emptiest bin: one row can make it large",
        paper="Guo et al. (2017), On Calibration of Modern Neural Networks, ICML, eq. (5)",
        cost="O(n·K), no sort",
        state="table",
        consistent=False,
    )
)


def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    bins: str = "width",
    view: View | str = "top-1",
    convention: str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Find the largest gap between accuracy and confidence over non-empty bins.

    Top-label calibration; smaller is better; 0 is perfect. Decided by the emptiest bin: one row can make it large.

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
    view : View or str, default "top-1"
        Which pairs (score, outcome) are judged: a view or its name.
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
    max_b abs(t̄_b − s̄_b) over non-empty bins.
    Cost O(n·K), no sort; state: table.

    References
    ----------
    [1] Guo et al. (2017), On Calibration of Modern Neural Networks, ICML, eq. (5).

    Examples
    --------
    >>> from calibrant.metrics import maximum_calibration_error
    >>> maximum_calibration_error([1, 0, 1, 1, 1], [0.9, 0.9, 0.8, 0.8, 0.8])
    0.4
    """
    return MEASURE(
        y_true,
        y_proba,
        n_bins=n_bins,
        bins=bins,
        view=view,
        convention=convention,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
