"""Accuracy."""

from __future__ import annotations

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.declare import Measure, Recipe, declare
from calibrant.core.inputs import Forecast
from calibrant.metrics.recipes import MeanScore


def _rows(forecast: Forecast) -> Floats:
    """1 where the top label is right."""
    return np.asarray(forecast.hit, dtype=np.float64)


def _recipe() -> Recipe:
    return MeanScore(_rows, pairs_suffice=True)


MEASURE = declare(
    Measure(
        name="accuracy",
        function="accuracy",
        title="Accuracy",
        notion="plain fact",
        estimates="the probability that the top label is right",
        bound="exact",
        recipe=_recipe,
        weakness="says nothing about the probabilities",
        paper="–",
        cost="O(n·K)",
        state="score sums",
        smaller_is_better=False,
        perfect=1.0,
        panel=True,
    )
)


def accuracy(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
) -> float:
    """Share of rows whose largest probability names the truth.

    A plain fact; larger is better; 1 is perfect. Says nothing about the probabilities.

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
    Ties of the largest probability go to the lowest class index.
    Cost O(n·K); state: score sums.

    References
    ----------
    None needed.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> accuracy([1, 0, 1, 0], [0.9, 0.2, 0.4, 0.5])
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
