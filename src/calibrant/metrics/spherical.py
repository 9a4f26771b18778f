"""Spherical score."""

from __future__ import annotations

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.row_scores import spherical_rows
from calibrant.metrics.recipes import MeanScore, by_block


def _recipe() -> Recipe:
    return MeanScore(by_block(spherical_rows))


MEASURE = declare(
    Measure(
        name="spherical",
        function="spherical_score",
        title="Spherical score",
        notion="proper score",
        estimates="the spherical calibration error, less 1",
        bound="upper",
        recipe=_recipe,
        weakness="hard to read: no unit, and flat near the optimum",
        paper="Gneiting & Raftery (2007), Strictly Proper Scoring Rules, JASA, section 4.1",
        cost="O(n·K)",
        state="score sums",
        range=(-1.0, 0.0),
        perfect=-1.0,
        proper=True,
        percent=False,
    )
)


def spherical_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Average the negative cosine between forecast and outcome.

    Strictly proper; smaller is better; −1 is perfect. Hard to read: no unit, and flat near the optimum.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
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
    −(1/n) Σ_i p_i(y_i)/‖p_i‖₂: range [−1, 0].
    Cost O(n·K); state: score sums.

    References
    ----------
    [1] Gneiting & Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation, JASA 102, section 4.1.

    Examples
    --------
    >>> from calibrant.metrics import spherical_score
    >>> spherical_score([1], [0.8]) == -0.8 / (0.8**2 + 0.2**2) ** 0.5
    True
    """
    return MEASURE(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
