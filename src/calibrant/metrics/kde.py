"""Kernel density calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.estimators import KDE
from calibrant.metrics.recipes import CalibrationError
from calibrant.views import View, as_view


def _recipe(*, view: View | str = "top-1", norm: float = 1.0, bandwidth: str | float = "published") -> Recipe:
    return CalibrationError(as_view(view), KDE(bandwidth=bandwidth), norm)


MEASURE = declare(
    Measure(
        name="kde",
        function="kde_calibration_error",
        title="Kernel density calibration error",
        notion="top-label calibration",
        estimates="the top-label error TCE_p",
        bound=None,
        recipe=_recipe,
        weakness="smooths over sharp structure and depends on the bandwidth rule",
        paper="Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, eq. (6)",
        cost="O(n log n + grid log grid)",
        state="table",
    )
)


def kde_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    norm: float = 1.0,
    bandwidth: str | float = "published",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Measure the calibration error with kernel density estimates instead of bins.

    Any one-dimensional view, top label by default; smaller is better; 0 is perfect. Smooths over sharp structure and
    depends on the bandwidth rule.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    view : View or str, default "top-1"
        Which pairs (score, outcome) are judged: a view or its name.
    norm : float, default 1.0
        p ≥ 1, or inf for the maximum.
    bandwidth : {"published", "text"} or float, default "published"
        Rule behind the published numbers, the printed rule, or the half-width of the kernel.
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
    ∫ abs(s − π̂(s))^p p̂(s) ds, triweight kernel, samples mirrored at the nearer end; `bandwidth="published"` is the
    rule that produced the paper's numbers. Kept at the p-th root, so norm 2 is comparable with the other errors.
    Cost O(n log n + grid log grid); state: table.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML, eq. (6) and appendix C.

    Examples
    --------
    >>> from calibrant.metrics import kde_calibration_error
    >>> round(kde_calibration_error([1, 0, 1, 1, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.55, 0.95]), 3) > 0
    True
    """
    return MEASURE(
        y_true,
        y_proba,
        view=view,
        norm=norm,
        bandwidth=bandwidth,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
