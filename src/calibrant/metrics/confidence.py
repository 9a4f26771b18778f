"""Mean confidence."""

from __future__ import annotations

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.inputs import Forecast
from calibrant.metrics.recipes import MeanScore


def _rows(forecast: Forecast) -> Floats:
    """Largest probability."""
    return np.asarray(forecast.top_score, dtype=np.float64)


def _recipe() -> Recipe:
    return MeanScore(_rows, pairs_suffice=True)


MEASURE = declare(
    Measure(
        name="confidence",
        function="mean_confidence",
        title="Mean confidence",
        notion="plain fact",
        estimates="the accuracy the model claims",
        bound="exact",
        recipe=_recipe,
        weakness="says nothing about where the claim is wrong",
        paper="–",
        cost="O(n·K)",
        state="score sums",
        smaller_is_better=None,
        perfect=None,
        panel=True,
    )
)


def mean_confidence(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Mean of the largest probability: the accuracy the model claims.

    A plain fact; neither direction is better; equal to the accuracy for a calibrated model. Says nothing about where
    the claim is wrong.

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
    (1/n) Σ_i max_k p_ik.
    Cost O(n·K); state: score sums.

    References
    ----------
    None needed.

    Examples
    --------
    >>> from calibrant.metrics import mean_confidence
    >>> mean_confidence([1, 0], [0.9, 0.4])
    0.75
    """
    return MEASURE(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
