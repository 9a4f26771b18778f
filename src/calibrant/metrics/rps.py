"""Ranked probability score."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.row_scores import ranked_rows
from calibrant.metrics.recipes import MeanScore, by_block


def _recipe() -> Recipe:
    return MeanScore(by_block(ranked_rows))


MEASURE = declare(
    Measure(
        name="rps",
        function="ranked_probability_score",
        title="Ranked probability score",
        notion="proper score",
        estimates="the calibration error of the cumulative forecast",
        bound="upper",
        recipe=_recipe,
        weakness="meaningful only when the classes are ordered",
        paper="Epstein (1969), A Scoring System for Probability Forecasts of Ranked Categories",
        cost="O(n·K)",
        state="score sums",
        range=(0.0, math.inf),
        proper=True,
        percent=False,
    )
)


def ranked_probability_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Average the squared distance between cumulative forecast and cumulative outcome.

    Strictly proper for ordered classes; smaller is better; 0 is perfect. Meaningful only when the classes are
    ordered.

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
    (1/n) Σ_i Σ_{k<K} (F_ik − 1[y_i ≤ k])²: range [0, K − 1]; for two classes half the Brier score.
    Cost O(n·K); state: score sums.

    References
    ----------
    [1] Epstein (1969), A Scoring System for Probability Forecasts of Ranked Categories, Journal of Applied
    Meteorology 8.

    Examples
    --------
    >>> from calibrant.metrics import ranked_probability_score
    >>> ranked_probability_score([2], [[0.5, 0.25, 0.25]])  # 0.5² + 0.75²
    0.8125
    """
    return MEASURE(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
