"""Maximum mean calibration error."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.estimators import Kernel
from calibrant.metrics.recipes import CalibrationError
from calibrant.views import View, as_view


def _recipe(*, view: View | str = "top-1", width: float = 0.4) -> Recipe:
    return CalibrationError(as_view(view), Kernel(width), 1)


MEASURE = declare(
    Measure(
        name="mmce",
        function="maximum_mean_calibration_error",
        title="Maximum mean calibration error",
        notion="top-label calibration",
        estimates="the top-label error TCE₁",
        bound="lower",
        recipe=_recipe,
        weakness="its scale depends on the kernel, so compare it only with itself",
        paper="Kumar, Sarawagi & Jain (2018), Trainable Calibration Measures, ICML, eq. (4)",
        cost="O(n·K + n log n), exact",
        state="table",
        panel=True,
    )
)


def maximum_mean_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "top-1",
    width: float = 0.4,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Measure calibration by a kernel over pairs of rows, without bins.

    Any one-dimensional view, top label by default; smaller is better; 0 is perfect. Its scale depends on the kernel,
    so compare it only with itself.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    view : View or str, default "top-1"
        Which pairs (score, outcome) are judged: a view or its name.
    width : float, default 0.4
        Length scale of the Laplace kernel.
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
    √(Σ_ij (t_i − s_i)(t_j − s_j) e^{−abs(s_i − s_j)/width})/n, the diagonal included; one running sum over sorted
    scores gives it exactly.
    Cost O(n·K + n log n), exact; state: table.

    References
    ----------
    [1] Kumar, Sarawagi & Jain (2018), Trainable Calibration Measures for Neural Networks from Kernel Mean Embeddings,
    ICML, eq. (4).

    Examples
    --------
    >>> from calibrant.metrics import maximum_mean_calibration_error
    >>> maximum_mean_calibration_error([1, 0], [0.7, 0.7])  # residuals 0.3 and −0.7 at one score: |−0.4|/2
    0.2
    """
    return MEASURE(
        y_true,
        y_proba,
        view=view,
        width=width,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
