"""Kolmogorov–Smirnov calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.estimators import Cumulative
from calibrant.metrics.recipes import CalibrationError
from calibrant.views import View, as_view


def _recipe(*, view: View | str = "top-1") -> Recipe:
    return CalibrationError(as_view(view), Cumulative(), 1)


MEASURE = declare(
    Measure(
        name="ks",
        function="kolmogorov_smirnov_error",
        title="Kolmogorov–Smirnov calibration error",
        notion="top-label calibration",
        estimates="the top-label error TCE₁",
        bound="lower",
        recipe=_recipe,
        weakness="errors of opposite sign in neighbouring scores cancel",
        paper="Gupta et al. (2021), Calibration of Neural Networks using Splines, ICLR, eq. (11)-(12)",
        cost="O(n·K + n log n): one sort",
        state="table",
        panel=True,
    )
)


def kolmogorov_smirnov_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Find the largest gap between cumulative accuracy and cumulative confidence.

    Any one-dimensional view, top label by default; smaller is better; 0 is perfect; no bins. Errors of opposite sign
    in neighbouring scores cancel.

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
    max_σ abs(Σ_{s_i ≤ σ} (t_i − s_i))/n over distinct score values σ, so the order of ties does not matter.
    Cost O(n·K + n log n): one sort; state: table.

    References
    ----------
    [1] Gupta et al. (2021), Calibration of Neural Networks using Splines, ICLR, eq. (11)-(12).

    Examples
    --------
    >>> from calibrant.metrics import kolmogorov_smirnov_error
    >>> kolmogorov_smirnov_error([1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])  # 0.8/4 after the scores 0.6
    0.2
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
